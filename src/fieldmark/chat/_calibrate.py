"""What does an image really cost? Asked with one probe request with and one without it.

Published rules drift and have disagreed with bills; what an endpoint charges for a picture is the
difference of two prompts that differ in nothing else.
"""

from __future__ import annotations

from fieldmark.chat._estimate import Calibration, Estimator
from fieldmark.chat._image_tokens import text_tokens
from fieldmark.chat._messages import Answer, Message, Picture, Request, Settings, user
from fieldmark.chat._model import ChatModel
from fieldmark.chat._options import DEFAULT, Options
from fieldmark.chat._pictures import prepare
from fieldmark.chat._run import ask_now

_WORDS = (
    "Look at what you are given and say in one word whether it shows a plant or an animal. "
    "Do not explain your answer, do not repeat the question, and do not add punctuation."
)


def calibrate(model: ChatModel, picture: Picture, options: Options = DEFAULT) -> Calibration | None:
    """Two tiny paid requests; None where the endpoint returned no token counts."""
    settings = Settings(max_output_tokens=16)
    plain, seen = user(_WORDS), user(_WORDS, picture)
    found: dict[str, Answer] = {}
    requests = [Request("plain", (plain,), settings), Request("picture", (seen,), settings)]
    ask_now(requests, model, options, on_answer=lambda r, a: found.update({r.id: a}))
    usages = [found[name].usage for name in ("plain", "picture") if name in found]
    if len(usages) < 2 or usages[0] is None or usages[1] is None:
        return None
    sent = prepare(picture, model.picture_limits)
    guess = _guess(plain, model)
    return Calibration(
        width=sent.width,
        height=sent.height,
        image_tokens=max(0, usages[1].tokens_in - usages[0].tokens_in),
        text_ratio=min(2.0, max(0.5, usages[0].tokens_in / guess)),
    )


def _guess(message: Message, model: ChatModel) -> int:
    return Estimator(model.card).messages([message], []) or text_tokens(message.text)
