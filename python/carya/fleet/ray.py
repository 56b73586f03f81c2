"""The child process of a fleet on Ray: `python -m carya.fleet.ray`. The name `carya.fleet.ray` is the function."""

if __name__ == "__main__":
    from carya.fleet._ray_child import main

    main()
