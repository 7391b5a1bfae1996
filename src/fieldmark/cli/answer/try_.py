"""Which model for my photos? Point it at a folder of labelled photos, or a table.

examples:
  fieldmark try photos/
  fieldmark try obs.csv --image path --label species --unit camera
  fieldmark try photos/ --models small
  fieldmark try photos/ --chat chat/openrouter/openai/gpt-4o-mini --max-usd 1
  fieldmark predict try/model new_photos/
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from fieldmark.cli.flags import ChatFlags, ChatModelFlags, Common, CommonFlags, Only
from fieldmark.cli.show import print_json, talk, tell
from fieldmark.errors import UsageError

if TYPE_CHECKING:
    from fieldmark.settings import Settings
    from fieldmark.tryout.chat import ChatTrial

FIRST_FLAGS = (
    *("photos", "out", "models", "image", "label", "unit", "label_part", "boxes", "find"),
    *("chat", "max_usd", "json", "device", "offline", "quiet"),
)
COMPUTING = ("cache", "device", "precision", "decode", "threads", "batch_size", "offline", "quiet")


@dataclass(frozen=True, slots=True)
class TryArgs:
    photos: Annotated[Positional[Path], arg(metavar="PHOTOS", help_behavior_hint="")]
    """a folder with one folder of photos per label, a table (.csv, .tsv, .parquet), a COCO file, or
    a Camtrap DP"""
    out: Path = Path("try")
    """folder for the page, the tables and the model"""
    models: Annotated[tuple[str, ...], arg(metavar="NAME …")] = ("auto",)
    """auto (what works here; the small list where torch is installed), classical, small (124 MB to
    fetch), best (2.8 GB), or names"""
    image: str = ""
    """column of a table that names the photo"""
    label: str = ""
    """column of a table that names the label"""
    unit: str = ""
    """column that names the camera, site or individual: models are tested on others than they were
    trained on"""
    label_part: Annotated[int, arg(metavar="N", help_behavior_hint="")] = 0
    """which folder names the label, in nested folders: 1 is the outermost [found]"""
    boxes: Path | None = None
    """results of MegaDetector (.json): photos are cut to their animal"""
    find: float = 0.95
    """share of a label's photos to find when you check the photos most likely to show it"""
    chat: Annotated[str, arg(metavar="MODEL")] = ""
    """also ask this chat model about 200 photos, for at most $0.50 unless --max-usd says otherwise:
    they are sent to its provider"""
    json: bool = False
    """print the verdict as JSON"""
    asking: ChatModelFlags = ChatFlags()
    common: Annotated[CommonFlags, Only(("results", *COMPUTING))] = Common()


def run(args: TryArgs) -> int:
    from fieldmark.data.read.own_photos import Columns
    from fieldmark.progress import for_people
    from fieldmark.tryout.products import as_json, write_products
    from fieldmark.tryout.trial import TrialOptions, run_trial

    if not 0 < args.find < 1:
        raise UsageError(f"--find {args.find:g}: expected a share between 0 and 1, such as 0.95.")
    columns = Columns(args.image, args.label, args.unit, args.label_part, args.boxes)
    settings = args.common.settings()
    with for_people(args.common.quiet) as progress:
        verdict = run_trial(
            args.photos,
            TrialOptions(columns, args.models, args.find, _chat(args, settings), args.out),
            settings,
            progress,
            lambda text: None if args.common.quiet else tell(text, sys.stderr),
        )
        page = write_products(verdict, args.out, settings, progress)
    if args.json:
        print_json(as_json(verdict))
    else:
        for line in verdict.lines:
            tell(line, sys.stdout)
    if not args.common.quiet:
        talk(f"\nopen:  {page}")
        talk(f"next:  fieldmark predict {args.out / 'model'} NEW_PHOTOS")
    return 0


def _chat(args: TryArgs, settings: Settings) -> ChatTrial | None:
    from fieldmark.chat import Budget, ChatModel
    from fieldmark.chat.send.options import is_local
    from fieldmark.tryout.chat import MOST_USD, ChatTrial

    if args.chat:
        model, budget = args.asking.model(args.chat, settings), args.asking.budget()
        if isinstance(model, ChatModel):
            model.key()  # a missing one is told now, not after the models
        budget.check(model.card)
        if not budget.is_capped and isinstance(model, ChatModel):
            if model.card.is_priced:
                budget = Budget(MOST_USD)
            elif not is_local(model.base_url):
                raise UsageError(
                    f"the price of {args.chat} is unknown. Give --price IN/OUT, such as 0.5/1.5, "
                    "or set a limit: --max-tokens N."
                )
        return ChatTrial(model, args.asking.options(), budget)
    if args.asking != ChatFlags():
        raise UsageError("--max-usd and the like need a chat model: add --chat MODEL.")
    return None
