"""What `import carya` loads, and what the extras are for."""

from __future__ import annotations

import subprocess
import sys

import carya


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_import_loads_numpy_and_nothing_else_from_outside() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import carya\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - set(sys.stdlib_module_names)))"
    )
    assert run(code) == "['carya']\n"


def test_what_few_need_is_not_loaded_by_every_process() -> None:
    """Each host of functions imports carya anew: what other machines and kept counts need takes a third of its start."""
    code = (
        "import sys, numpy; before = set(sys.modules); import carya._functions.host\n"
        "few = {'ssl', 'secrets', 'ipaddress', 'importlib.metadata', 'email', 'zipfile', 'tempfile'}\n"
        "print(sorted(few & (set(sys.modules) - before)))"
    )
    assert run(code) == "[]\n"


def test_frameworks_are_loaded_when_asked_for() -> None:
    code = (
        "import sys, carya\n"
        "print([name in sys.modules for name in ('torch', 'jax', 'rich', 'typer', 'PIL')])\n"
        "print(hasattr(carya, 'tensorflow'))"
    )
    assert run(code) == "[False, False, False, False, False]\nFalse\n"


def test_rooms_of_functions_are_loaded_by_the_first_pipeline_that_has_one() -> None:
    code = (
        "import sys, numpy, carya\n"
        "def rooms(): return [room for room in ('mix', 'spec', 'stage') if f'carya._stages.{room}' in sys.modules]\n"
        "plain = carya.arrays({'x': numpy.arange(4)}).shuffle(seed=1).batch(2)\n"
        "len(plain), repr(plain), carya.Loader(plain, threads=1).close()\n"
        "print(rooms())\n"
        "plain.map_batches(dict)\n"
        "print(rooms())"
    )
    before, after = run(code).splitlines()
    assert before == "[]"
    assert "'stage'" in after


def test_the_package_is_typed_and_has_a_version() -> None:
    from importlib.resources import files

    assert files(carya).joinpath("py.typed").is_file()
    assert files(carya).joinpath("_core.pyi").is_file()
    assert carya.__version__.count(".") == 2


def test_every_public_name_has_a_docstring() -> None:
    for name in carya.__all__:
        item = getattr(carya, name)
        if name != "__version__" and not issubclass(type(item), type(Exception)):
            assert item.__doc__, name
    for owner in (carya.Pipeline, carya.Loader, carya.Batch):
        for name, item in vars(owner).items():
            if not name.startswith("_") and callable(item):
                assert item.__doc__, f"{owner.__name__}.{name}"


def test_the_command_names_what_it_lacks(tmp_path: object) -> None:
    code = "import sys; sys.modules['typer'] = None; sys.argv = ['carya']; from carya._cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "pip install rich typer" in done.stderr
