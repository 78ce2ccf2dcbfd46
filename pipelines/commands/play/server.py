"""The requests of the page, as JSON over HTTP, and who may send them.

| request | answer |
|---|---|
| GET /models | name, training data, networks, held-out texts, titles of fine-tuned models, commands that make such |
| POST /read {text} | its tokens with the probability that each was replaced; each `[MASK]` filled, and the proposals |
| POST /propose {text, token} | the generator's proposals for one token |
| POST /corrupt {text, rate, seed} | the text, each `[MASK]` filled, with tokens replaced, and what is detected in it |
| POST /task {task} | the input form of a fine-tuned model, with examples |
| POST /ask {task, row} | its answer (electra/inference.py) |

Other sites in the same browser are refused: the Host header must name this machine (against DNS rebinding), and a body
must be JSON, which a browser sends to another origin only after a CORS preflight, never granted.
"""

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

import electra
from electra.data.tokenizer import MASK
from electra.errors import BadConfig, BadInput, UserError, shown
from electra.files import encodes
from pipelines.commands.play.model_registry import ModelRegistry

ROOM = 1 << 16  # bytes of a request
MASKS = 20  # each is a forward pass over the whole text
PROPOSALS = 10
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
Body = dict[str, Any]
Places = Sequence[tuple[int, int]]


def application(registry: ModelRegistry, hosts: Sequence[str]) -> Starlette:
    """The page and its six requests, answered for one of the `hosts`."""
    one_at_a_time = threading.Lock()  # torch has the cores to itself

    def question(answer: Callable[[ModelRegistry, Body], Any]) -> Route:
        def work(body: Body) -> Any:
            with one_at_a_time:
                return answer(registry, body)

        async def endpoint(request: Request) -> Response:
            return JSONResponse(await run_in_threadpool(work, await _body(request)))

        return Route(f"/{answer.__name__}", endpoint, methods=["POST"])

    async def models(request: Request) -> Response:
        networks = {kind: kind in registry.models for kind in ("discriminator", "generator")}
        about = {key: getattr(registry, key) for key in ("name", "data", "texts", "commands")}
        return JSONResponse({**about, "tasks": list(registry.tuned), **networks})

    def file(path: str, name: str) -> Route:
        return Route(path, lambda request: FileResponse(Path(__file__).with_name(name)))

    page = [file("/", "page.html"), file("/page.css", "page.css"), file("/page.js", "page.js")]
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False)
    return Starlette(
        routes=[*page, Route("/models", models), *map(question, (read, propose, corrupt, task, ask))],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=_with_headers), guard],
        exception_handlers={UserError: _mistake, HTTPException: _refused, ClientDisconnect: _gone, Exception: _bug},
    )


def read(registry: ModelRegistry, body: Body) -> Body:
    """Detect replaced tokens, once masks are filled."""
    text, places, masks = _filled(registry, body)
    return {**_judged(registry, text, "filled", places), "masks": masks}


def _filled(registry: ModelRegistry, body: Body) -> tuple[str, list[tuple[int, int]], list[Body]]:
    """The text with its masks filled from left to right, each after those before it; where; what was proposed."""
    text = _text(body)
    if text.count(MASK) > MASKS:
        raise BadInput("text", f"has {text.count(MASK)} times {MASK}", f"at most {MASKS}")
    masks, places = [], []
    for _ in range(text.count(MASK)):
        first, *_ = electra.propose(text, registry.need("generator"), count=PROPOSALS)
        before, _, after = text.partition(MASK)
        text = first.texts[0]
        masks.append({"shares": _shares(first.pieces, first.probability)})
        places.append((len(before.rstrip()), len(text) - len(after)))
    return text, places, masks


def propose(registry: ModelRegistry, body: Body) -> Body:
    """The generator's proposals for one token, and the text with each."""
    text, token = _text(body), body.get("token")
    if type(token) is not int:
        raise BadInput("token", f"is {shown(token)}", "the number of a token")
    (filled,) = electra.propose(text.replace(MASK, ""), registry.need("generator"), hide=[token], count=PROPOSALS)
    return {"shares": _shares(filled.pieces, filled.probability), "texts": filled.texts, "original": filled.original}


def corrupt(registry: ModelRegistry, body: Body) -> Body:
    """A text corrupted as in pre-training, once masks are filled."""
    rate, seed = body.get("rate", 0.15), body.get("seed", 0)
    if type(seed) is not int or not 0 <= seed < 2**31:
        raise BadInput("seed", f"is {shown(seed)}", "a whole number, 0 to 2147483647")
    text, *_ = _filled(registry, body)
    corrupted = electra.corrupt(text, registry.need("generator"), mask_rate=rate, seed=seed)
    changed = [number for number, replaced in enumerate(corrupted.replaced) if replaced]
    originals = [corrupted.original[slice(*corrupted.offsets[number])] for number in changed]
    places = [tuple(corrupted.places[number]) for number in changed]
    return _judged(registry, corrupted.text, "new", places, originals)


def task(registry: ModelRegistry, body: Body) -> Body:
    """The input form of a fine-tuned model."""
    return registry.about(registry.chosen(body.get("task")))


def ask(registry: ModelRegistry, body: Body) -> Body:
    """A fine-tuned model's answer to one row."""
    row = body.get("row")
    if not isinstance(row, dict):
        raise BadInput("row", f"is {shown(row)}", "texts by the names of their columns")
    return registry.answer(registry.chosen(body.get("task")), row)


def _text(body: Body) -> str:
    text = body.get("text")
    if not isinstance(text, str) or not encodes(text):
        raise BadInput("text", f"is {shown(text)}", "text")
    return text


def _shares(pieces: Sequence[str], probability: Iterable[float]) -> list[tuple[str, float]]:
    return [(piece, float(share)) for piece, share in zip(pieces, probability, strict=True)]


def _judged(registry: ModelRegistry, text: str, mark: str, places: Places, originals: Sequence[str] = ()) -> Body:
    """The tokens of a text: place, probability of replacement, and as `mark` whether one of the `places` overlaps."""
    if "discriminator" in registry.models:
        (judged,) = registry.models["discriminator"].replaced([text])
        shares: list[float | None] = judged.probability.tolist()
        found: Iterable[tuple[Any, float | None]] = zip(judged.offsets.tolist(), shares, strict=True)
    else:
        encoding = registry.need("generator").tokenizer.raw.encode(text, add_special_tokens=False)
        found = ((place, None) for place in encoding.offsets)
    tokens = []
    for (start, end), share in found:
        there = [number for number, (left, right) in enumerate(places) if left < end and start < right]
        token = {"start": start, "end": end, "share": share, mark: bool(there)}
        tokens.append(token | ({"was": " ".join(originals[number] for number in there)} if there and originals else {}))
    return {"text": text, "tokens": tokens}


async def _body(request: Request) -> Body:
    """The JSON object of a request; raises HTTPException for another type, too many bytes or anything else."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "content-type: expected application/json")
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > ROOM:
            raise HTTPException(413, f"the request has more than {ROOM:,} bytes; shorten the text")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is no JSON") from None
    if not isinstance(value, dict):
        raise HTTPException(400, f"the request is {shown(value)}; expected a JSON object")
    return value


def _mistake(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400 if isinstance(error, BadInput | BadConfig) else 500)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _gone(request: Request, error: Exception) -> Response:
    """For a client that left in the middle of its request: nobody reads it."""
    return Response(status_code=400)


def _bug(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "this is a bug; the terminal that runs `electra play` shows where"}, 500, HEADERS)


async def _with_headers(request: Request, answer: RequestResponseEndpoint) -> Response:
    """Add headers by which the browser loads nothing from elsewhere."""
    response = await answer(request)
    response.headers.update(HEADERS)
    return response
