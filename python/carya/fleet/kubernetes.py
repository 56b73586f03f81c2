"""The child process of a fleet on Kubernetes: `python -m carya.fleet.kubernetes`. The name `carya.fleet.kubernetes` is the function."""

if __name__ == "__main__":
    from carya.fleet._kubernetes_child import main

    main()
