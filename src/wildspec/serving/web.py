"""The pages: try an image, read what can be asked, review a pool. Each is one answer that asks only its own service."""

import json
from html import escape
from importlib.resources import files
from typing import Any

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def index_page(asks_token: bool) -> str:
    """Drop an image, see the decision."""
    hidden = "" if asks_token else " hidden"
    return (
        _asset("index.html")
        .replace("{{style}}", _asset("style.css"))
        .replace("{{script}}", _asset("draw.js") + _asset("script.js"))
        .replace("{{token_hidden}}", hidden)
        .replace("{{metrics}}", "" if asks_token else ' · <a href="metrics">Metrics</a>')  # a link brings no token along
    )


def review_page() -> str:
    """Sample after sample, answered with a key."""
    style = _asset("style.css") + _asset("review.css")
    return _asset("review.html").replace("{{style}}", style).replace("{{script}}", _asset("draw.js") + _asset("review.js"))


def docs_page(document: dict[str, Any], asks_token: bool) -> str:
    """The OpenAPI document for people: every path, its parameters, bodies and answers."""
    parts = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation(path, method, operation, "-H 'Authorization: Bearer TOKEN' " if asks_token else ""))
    schemas = "".join(
        f'<details id="s-{escape(name)}"><summary><code>{escape(name)}</code> {escape(_first(schema))}</summary>'
        f"<pre>{escape(json.dumps(schema, indent=2))}</pre></details>"
        for name, schema in document.get("components", {}).get("schemas", {}).items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>wildspec: interface</title><style>{_asset('style.css')}</style></head><body><main>"
        f'<header><h1>Interface</h1><p class="soft">{escape(document["info"].get("description", ""))} '
        f'<a href="./">Try it</a> · <a href="openapi.json">openapi.json</a></p></header>{"".join(parts)}'
        f'<section class="card"><h2>Schemas</h2>{schemas}</section></main></body></html>'
    )


def _operation(path: str, method: str, operation: dict[str, Any], token: str) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(p['name'])}</code></td><td>{escape(_kind(p['schema']))}</td>"
        f"<td>{escape(p.get('description', p['schema'].get('description', '')))}</td></tr>"
        for p in operation.get("parameters", [])
    )
    table = f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>' if rows else ""
    bodies = ", ".join(f"<code>{escape(kind)}</code>" for kind in operation.get("requestBody", {}).get("content", {}))
    answers = "".join(
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(answer.get('description', ''))}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    example = (
        f"<pre>curl {token}-F images=@photo.jpg http://HOST:PORT/v1/predict\n"
        f"curl {token}-H 'Content-Type: image/jpeg' --data-binary @photo.jpg http://HOST:PORT/v1/predict</pre>"
        if path == "/v1/predict" else ""
    )  # fmt: skip
    words = escape(operation.get("description", operation.get("summary", ""))).replace("\n\n", "<br>")
    return (
        f'<section class="card"><h2><b class="verb">{method.upper()}</b> <code>{escape(path)}</code></h2><p>{words}</p>'
        + (f"<h3>Body</h3><p>{bodies}</p>{example}" if bodies else "")
        + (f"<h3>Parameters</h3>{table}" if table else "")
        + f'<h3>Answers</h3><div class="scroll"><table><tbody>{answers}</tbody></table></div></section>'
    )


def _kind(schema: dict[str, Any]) -> str:
    limits = [f"{word} {schema[key]}" for key, word in (("minimum", "from"), ("maximum", "to")) if key in schema]
    default = [f"default {json.dumps(schema['default'])}"] if "default" in schema else []
    return ", ".join([" ".join([str(schema.get("type", "")), *limits]), *default])


def _first(schema: dict[str, Any]) -> str:
    return str(schema.get("description", "")).split("\n")[0]


def _asset(name: str) -> str:
    return (files("wildspec.serving") / "page" / name).read_text(encoding="utf-8")
