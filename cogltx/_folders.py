"""Find the folder of a model: of a run, a released model, or a model on the Hugging Face hub."""

from difflib import get_close_matches
from pathlib import Path

from cogltx._files import read_json
from cogltx.errors import ModelError

RELEASED = Path(__file__).parent / "released"  # the models that come with the package, a folder each
DEFAULT_MODEL = "qa-minilm"  # reads English
MULTILINGUAL_MODEL = "qa-multilingual"
_HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]


def is_released(name: str) -> bool:
    """Check whether a released model has this name."""
    return Path(name).name == name and (RELEASED / name / "config.json").is_file()


def model_folder(name: str | Path) -> Path:
    """Find the best epoch of a run, a model folder, a released model or ``owner/name[@REVISION]`` of the hub."""
    try:
        path = Path(name)
        is_run = (path / "run.json").is_file()
    except (TypeError, ValueError, OSError) as error:
        raise ModelError(f"{str(name)[:60]}: not a folder: {getattr(error, 'strerror', None) or error}") from error
    if is_run:
        best = read_json(path / "run.json").get("best")
        if not best:
            raise ModelError(f"{path}: the run has no finished epoch; continue it with train --resume")
        return path / str(best)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"{path}: neither a model folder nor a run: it has no config.json and no run.json")
        return path
    if is_released(str(name)):
        return RELEASED / path.name
    of_a_run = path.parts[:1] == ("runs",)
    if of_a_run or path.is_absolute() or len(path.parts) != 2 or str(name).startswith(".") or path.parent.is_dir():
        known = {other.name: Path(other.name) for other in RELEASED.iterdir()} if str(name) == path.name else {}
        if path.parent.is_dir():
            known |= {other.name: path.parent / other.name for other in path.parent.iterdir()}
        similar = get_close_matches(path.name, known, 1)
        hint = f"; did you mean {known[similar[0]]}?" if similar else "; train it first" if of_a_run else ""
        raise ModelError(f"{name}: no such folder{hint}")
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return downloaded(str(name))
    except LocalEntryNotFoundError as error:
        raise ModelError(f"{name}: no such folder, and the Hugging Face hub cannot be reached") from error
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        problem = f"{name}: no such folder, and no model of this name on the Hugging Face hub"
        raise ModelError(f"{problem}: {str(error).splitlines()[0]}") from error


def downloaded(name: str) -> Path:
    """Download ``owner/name`` or ``owner/name@REVISION`` from the Hugging Face hub, once; return its folder."""
    from huggingface_hub import snapshot_download

    repository, _, revision = name.partition("@")
    return Path(snapshot_download(repository, revision=revision or None, allow_patterns=_HUB_FILES))


def hub_name(folder: Path) -> str | None:
    """Name and commit of a model in the hub's cache; None for other folders.

    >>> hub_name(Path("hub/models--deepset--roberta-base-squad2/snapshots/adc3b06f79f797d1"))
    'deepset/roberta-base-squad2@adc3b06f79f797d1'
    """
    repository = folder.parent.parent.name
    if not repository.startswith("models--"):
        return None
    return "/".join(repository.split("--")[1:]) + f"@{folder.name}"
