import argparse
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

import cordwood
from cordwood import cli
from cordwood.errors import InvalidInput, NotFound

SOURCES = {**os.environ, "PYTHONPATH": str(Path(cordwood.__file__).parents[1])}
"""For an interpreter without site-packages."""

Register = Callable[[Callable[[argparse.Namespace], int]], None]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Register:
    """Make a command group of one command, `try`."""

    def register(run: Callable[[argparse.Namespace], int]) -> None:
        def add_to(commands: cli.Commands) -> None:
            parser = commands.add_parser("try", help="try it")
            parser.add_argument("--number", type=int, default=0)
            parser.set_defaults(run=run)

        group = types.ModuleType("trial_group")
        vars(group)["add_to"] = add_to
        monkeypatch.setitem(sys.modules, group.__name__, group)
        monkeypatch.setattr(cli, "GROUPS", (group.__name__,))

    return register


def fail_with(error: BaseException) -> Callable[[argparse.Namespace], int]:
    def run(_: argparse.Namespace) -> int:
        raise error

    return run


def test_without_arguments_it_prints_help_and_exits_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "usage: cordwood" in capsys.readouterr().err


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"cordwood {cordwood.__version__}\n"


def test_an_unknown_command_is_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fell"]) == 2
    assert "fell" in capsys.readouterr().err


def test_a_registered_command_gets_its_arguments_and_gives_the_exit_code(register: Register) -> None:
    register(lambda args: int(args.number))
    assert cli.main(["try", "--number", "7"]) == 7


def test_a_registered_command_stands_in_the_help(register: Register, capsys: pytest.CaptureFixture[str]) -> None:
    register(lambda _: 0)
    assert cli.main(["--help"]) == 0
    assert "try it" in capsys.readouterr().out


def test_an_error_is_one_line_and_exit_1(register: Register, capsys: pytest.CaptureFixture[str]) -> None:
    register(fail_with(NotFound("topic 'events' does not exist")))
    assert cli.main(["try"]) == 1
    assert capsys.readouterr().err == "cordwood: topic 'events' does not exist\n"


def test_invalid_input_is_wrong_use(register: Register, capsys: pytest.CaptureFixture[str]) -> None:
    register(fail_with(InvalidInput("offset -1 is below 0")))
    assert cli.main(["try"]) == 2
    assert capsys.readouterr().err == "cordwood: offset -1 is below 0\n"


def test_an_interrupt_ends_it_without_a_traceback(register: Register) -> None:
    register(fail_with(KeyboardInterrupt()))
    assert cli.main(["try"]) == 130


@pytest.mark.processes
def test_an_interrupt_that_does_not_wake_the_loop_by_itself_is_noticed() -> None:
    """Such as one that comes just before the loop goes to sleep: here another thread gets it, which is the same."""
    code = (
        "import asyncio, signal, threading\n"
        "from cordwood.cli.event_loop import run\n"
        "def interrupt():\n"
        "    signal.pthread_kill(threading.get_ident(), signal.SIGINT)\n"
        "async def sleep():\n"
        "    threading.Timer(0.1, interrupt).start()\n"
        "    await asyncio.Event().wait()\n"
        "try:\n"
        "    run(sleep())\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', signal.set_wakeup_fd(-1))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (run.returncode, run.stdout, run.stderr) == (0, "interrupted -1\n", "")


@pytest.mark.parametrize("module", ["argparse", "cordwood.cli.topics"])
def test_an_interrupt_while_it_is_still_being_imported_is_quiet(module: str) -> None:
    code = (
        "import signal, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from importlib.metadata import entry_points\n"
        "(command,) = entry_points(group='console_scripts', name='cordwood')\n"
        "sys.exit(command.load()())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_an_interrupt_in_a_callback_of_the_import_system_is_quiet() -> None:
    """Python prints an exception there and continues, so a KeyboardInterrupt would be shown and lost."""
    code = (
        "import signal, sys\n"
        "from importlib.metadata import entry_points\n"
        "(command,) = entry_points(group='console_scripts', name='cordwood')\n"
        "main = command.load()\n"
        "def interrupt(frame, event, argument):\n"
        "    if event == 'call' and frame.f_code.co_name == 'cb':\n"
        "        sys.setprofile(None)\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "sys.setprofile(interrupt)\n"
        "sys.exit(main())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "")


def test_the_command_imports_next_to_nothing_before_it_is_quiet() -> None:
    code = "import sys, cordwood.__main__; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, env=SOURCES)
    assert run.stderr == ""
    assert not {"argparse", "asyncio", "collections", "enum", "re", "signal", "typing"} & set(run.stdout.split())


def test_interrupts_that_the_parent_ignores_stay_ignored() -> None:
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from cordwood.__main__ import main\n"
        "sys.argv[1:] = ['--version']\n"
        "main()\n"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.splitlines()[-1] == "True"


def test_an_interrupt_during_the_work_lets_the_work_end() -> None:
    """From then on the interrupt is an exception: connections are closed."""
    code = (
        "import signal, sys, types; from cordwood import cli\n"
        "from cordwood.__main__ import main\n"
        "def run(_):\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    finally:\n"
        "        print('closed')\n"
        "group = types.ModuleType('group')\n"
        "group.add_to = lambda commands: commands.add_parser('try').set_defaults(run=run)\n"
        "sys.modules['group'] = group; cli.GROUPS = ('group',)\n"
        "sys.argv[1:] = ['try']\n"
        "sys.exit(main())\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (130, "closed\n", "")


def test_a_fault_of_the_program_itself_is_not_hidden(register: Register) -> None:
    register(fail_with(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["try"])


def test_on_another_platform_it_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cli.main(["--version"]) == 1
    assert capsys.readouterr().err == "cordwood: it runs on Linux only, and this is darwin\n"


def test_a_reader_that_leaves_early_causes_no_complaint() -> None:
    code = (
        "import sys, types; from cordwood import cli\n"
        "def run(_):\n    print('x')\n    return 0\n"
        "group = types.ModuleType('group')\n"
        "group.add_to = lambda commands: commands.add_parser('try').set_defaults(run=run)\n"
        "sys.modules['group'] = group; cli.GROUPS = ('group',)\n"
        "sys.exit(cli.main(['try']))\n"
    )
    # Only a buffered stdout has something left to flush at exit.
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    reading, writing = os.pipe()
    os.close(reading)
    try:
        run = subprocess.run(
            [sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, text=True, env=buffered
        )
    finally:
        os.close(writing)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_module_and_the_command_are_the_same() -> None:
    run = subprocess.run([sys.executable, "-m", "cordwood", "--version"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, f"cordwood {cordwood.__version__}\n")
