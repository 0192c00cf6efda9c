"""The report's page: one HTML file that asks for nothing. Style, script, data and pictures are inside it."""

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files

from wildspec.report import plots, review_section, words
from wildspec.report.facts import Facts, moment
from wildspec.report.maps import NEIGHBOURS, Maps
from wildspec.report.page_data import page_data
from wildspec.report.svg import percent

MOST_CLASSES = 40  # of which a table of confusions is shown
MISTAKES = 40  # shown where there are more
UPRIGHT = 8  # columns of that table beside each other on a page; names above more of them are turned
POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'"
)


def render(facts: Facts, maps: Maps | None) -> str:
    """The whole page."""
    sections = [
        ("numbers", "Numbers", _numbers(facts)),
        ("review", "To review", _review(facts)),
        ("scores", "Scores", _scores(facts)),
        ("map", "Map", _map(facts, maps) if maps is not None else ""),
        ("classes", "Classes", _classes(facts)),
        ("model", "Model", _model(facts)),
    ]
    shown = [(key, title, body) for key, title, body in sections if body]
    links = "".join(f'<a href="#sec-{key}">{title}</a>' for key, title, _ in shown)
    body = "".join(f'<section id="sec-{key}" aria-labelledby="h-{key}">{content}</section>' for key, _, content in shown)
    assets = {name: _asset(name) for name in ("style.css", "script.js", "list.js")}
    data, left_out = page_data(facts)
    head = words.headline(facts)
    said = "".join(f"<li>{_text(line)}</li>" for line in words.advice(facts))
    made, name = facts.about.made, facts.about.name
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">
<link rel="icon" href="data:,">
<title>{escape(name)}: wildspec report</title>
<style>{assets["style.css"]}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the report</a>
<nav aria-label="Sections"><strong>{escape(name)}</strong>{links}
<button id="theme" class="plain" type="button">Light / dark</button></nav>
<main id="main">
<header><p>wildspec report</p><h1>{escape(head)}</h1><ul>{said}</ul></header>
{body}
<footer>Made by wildspec {escape(made["version"])} from the bundle “{escape(name)}”{_fitted(made)}. This page is one file and
sends no request.{_cut(left_out)}</footer>
</main>
<div id="tip" aria-hidden="true"></div><div id="spoken" class="sr" role="status"></div>
{_DIALOG}
<script type="application/json" id="data">{data}</script>
<script>{assets["script.js"]}</script>
<script>{assets["list.js"]}</script>
</body>
</html>
"""


_DIALOG = """<dialog id="sample" aria-labelledby="s-name"><div class="top"><img id="s-picture" alt="">
<div><h3 id="s-name"></h3><p id="s-verdict"></p><p id="s-why" class="why"></p></div></div>
<h3 id="s-near-title">Nearest labelled samples</h3><ul class="near" id="s-near"></ul>
<form method="dialog"><button class="plain" type="submit">Close</button></form></dialog>"""


def _fitted(made: dict[str, str]) -> str:
    if not made["created"]:
        return ""
    return f", fitted {escape(moment(made['created']))} with <code>{_text(made['command'])}</code>"


def _cut(left_out: int) -> str:
    return f" {left_out:,} pictures were left out to keep it small." if left_out else ""


def _heading(key: str, title: str, why: str) -> str:
    return f'<h2 id="h-{key}">{escape(title)}</h2><p class="why">{escape(why)}</p>'


def _numbers(facts: Facts) -> str:
    tiles = "".join(
        f'<div class="tile"><span>{escape(name)}</span><b>{_text(value)}</b><small>{_text(meaning)}</small></div>'
        for name, value, meaning in words.metric_rows(facts)
    )
    source = "Nothing was learned from" if facts.fresh else "The threshold was calibrated on"
    at = f"At the model's own threshold{'s' if facts.own_limits else ''}."
    why = f"{at} {source} the known {facts.about.what} counted here."
    if facts.taught:
        why = f"{at} Some of the known images counted here taught the network the fit started from."
    return _heading("numbers", "In numbers", why) + f'<div class="tiles">{tiles}</div>'


def _review(facts: Facts) -> str:
    parts = [review_section.groups_and_classes(facts)]
    if facts.borderline:
        borderline = (
            "<h3>Borderline</h3>"
            '<p class="why">Next to their threshold on either side, the nearest first.</p>'
            + _thumbs(facts, facts.borderline)
        )
        parts.append(f'<div class="card" style="margin-bottom:1rem">{borderline}</div>')
    parts.append(review_section.work_list(facts))
    if not any(parts):
        return ""
    why = f"Wild {facts.about.what} whose decision is worth a look. Open one to see why."
    return _heading("review", "Review these first", why) + "".join(parts)


def _thumbs(facts: Facts, rows: list[int]) -> str:
    items = []
    for i in rows:
        sample = facts.samples[i]
        if sample.picture is None:
            picture = '<span class="none" aria-hidden="true">no picture</span>' if facts.about.what == "images" else ""
        else:
            picture = review_section.picture(sample, i)
        verdict = "rejected" if sample.kind == "rejected" else f"kept as {sample.likely}"
        limit = f"<br>threshold {sample.limit:.3g}" if facts.own_limits else ""
        items.append(
            f'<li><button class="thumb" type="button" data-i="{i}">{picture}<span>{_breakable(sample.name)}'
            f"<small>{escape(verdict)}<br>score {sample.score:.3g}{limit}<br>p = {sample.p_value:.2g}</small></span>"
            "</button></li>"
        )
    return f'<ul class="thumbs">{"".join(items)}</ul>'


def _breakable(name: str) -> str:
    """A file's name that a narrow card breaks where it is made of parts, not inside ".png"."""
    return re.sub(r"([/_ -])|(?=\.\w+$)", r"\1<wbr>", escape(name))


def _text(plain: str) -> str:
    """A sentence in which no line ends between a number and its per cent sign, or inside --option."""
    joined = re.sub(r"(\d) ?%", "\\1\u00a0%", escape(plain))
    return re.sub(r"(?<![\w-])(--[a-z][a-z-]*)", r'<span class="nb">\1</span>', joined)


def _scores(facts: Facts) -> str:
    what, own = facts.about.what, facts.own_limits
    by, limit = "score", "the threshold"
    if own:
        by, limit = f"score less its own threshold, which is higher for {what} that look shifted", "0"
    said = f"Share of each group by {by}. High = unlike the labelled {what}; right of {limit}: rejected."
    cards = [_card("Score distributions", said, plots.distributions(facts))]
    title, drawing = plots.trade_off(facts)
    if drawing:
        if "semantic" in facts.groups:
            why = "Every threshold is one point; the dot is the model's own."
            if own:
                why = (
                    "Every threshold that is the same for all is one point. The model's are higher for those that look "
                    "shifted: the dot, its decisions, may lie beside the curve."
                )
            extra = '<li class="g-semantic"><i></i><span>against clean known</span></li>'
            if "covariate" in facts.groups:
                extra += '<li class="g-covariate"><i></i><span>against shifted known</span></li>'
            drawing += f'<ul class="legend">{extra}</ul>'
        else:
            every = "all thresholds moved alike" if own else "every threshold"
            why = (
                f"Wild samples rejected against known ones lost, for {every}; the dot is the model's own. Not a ROC curve: "
                "the wild pool holds known classes too, so it need not reach the top left."
            )
        cards.append(_card(title, why, drawing))
    calibration = plots.calibration_plot(facts)
    if calibration:
        why = (
            f"{_alarms_counted(facts)} Shaded: where 95 % of calibration sets of this size would lie. Exact for samples "
            "like the labelled ones; under shift it is no promise."
        )
        cards.append(_card("False alarms: promised and found", why, calibration))
    reliability, error = plots.reliability(facts)
    if reliability:
        cards.append(
            _card("Do probabilities mean what they say?",
                  f"Of {facts.known.title} {facts.about.what} given a class with such a probability, how many had it. On "
                  f"the line: as sure as right. Off by {100 * error:.1f} points on average (expected calibration error).",
                  reliability)
        )  # fmt: skip
    why = "How known and unknown are told apart, and whether the threshold keeps its promise. Arrow keys walk a plot."
    return _heading("scores", "Scores and threshold", why) + f'<div class="grid">{"".join(cards)}</div>'


def _alarms_counted(facts: Facts) -> str:
    """What the plot of false alarms counts, and where that is not what was rejected, how much was."""
    known = f"{facts.known.title} {facts.about.what} ({len(facts.known):,})"
    if not facts.known.own_limits(facts.threshold):
        return f"Share of {known} rejected, against the rate asked for."
    return (
        f"Share of {known} above the threshold of samples like the labelled ones, against the rate asked for. Rejected are "
        f"{percent(float(facts.known.rejected.mean()))}: those that look shifted have a higher one."
    )


def _card(title: str, why: str, body: str) -> str:
    return f'<div class="card"><h3>{escape(title)}</h3><p class="why">{_text(why)}</p>{body}</div>'


def _map(facts: Facts, maps: Maps) -> str:
    classes = facts.about.classes
    named = classes[: 2 * plots.PALETTE]
    legend = "".join(
        f'<li class="c{i % plots.PALETTE}"><i class="disc"></i><span>{escape(name)}</span></li>'
        for i, name in enumerate(named)
    )
    if len(classes) > plots.PALETTE:
        more = f"and {len(classes) - len(named):,} more classes; " if len(classes) > len(named) else ""
        legend += f"<li><span>{more}each colour stands for several</span></li>"
    legend += '<li><i class="ring"></i><span>wild, kept</span></li>'
    legend += '<li class="rejected"><i class="disc"></i><span>wild, rejected</span></li>'
    buttons = (
        '<div class="row" role="group" aria-label="Kind of map">'
        '<button class="plain" type="button" data-map="tsne" aria-pressed="true">t-SNE</button>'
        '<button class="plain" type="button" data-map="spectral" aria-pressed="false">Spectral</button></div>'
    )
    groups = f"drawn are the first {len(maps.spectrum)}, no more than there are classes."
    if len(maps.spectrum) > len(classes):
        groups = f"the first {len(classes)}, as many as classes, are marked. More of them near 1: the data has groups that "
        groups += "your labels do not name."
    eigen = _card(
        "Spectrum of the neighbour graph",
        f"Eigenvalues of the graph over these samples, each tied to its {NEIGHBOURS} nearest in feature space. Values near "
        f"1 count well separated groups; {groups}",
        plots.spectrum(maps, len(classes)),
    )
    drawn = (
        f'<div class="card"><h3>Samples as the network sees them</h3><p class="why">Faint discs: '
        "labelled. Rings: wild, kept. Strong discs: wild, rejected. Hover or use the arrow keys; Enter opens a sample.</p>"
        f'{buttons}<div class="mapbox">{plots.sample_map(facts, maps)}</div><ul class="legend">{legend}</ul></div>'
    )
    head = _heading("map", "Map", "Near each other means alike to the network.")
    return head + f'<div class="mapgrid">{drawn}{eigen}</div>'


def _classes(facts: Facts) -> str:
    shown = _confusion(facts)
    rates = _rates(facts)
    if not shown and rates:
        shown = _heading("classes", "Class by class", "What is lost of each known class.")
    return shown + rates


def _rates(facts: Facts) -> str:
    """How often each class is rejected, the worst first, with the exact interval."""
    seen = sorted((one for one in facts.rates if one.count), key=lambda one: -one.low)[:MOST_CLASSES]
    if not seen:
        return ""
    rows = []
    for one in seen:
        interval = f"{percent(one.low)} to {percent(one.high)}"
        rows.append([one.name, f"{one.count:,}", f"{one.rejected:,}", percent(one.rejected / one.count), interval])
    about = facts.about
    said = words.class_words(facts.rates, about.calibration, about.alpha, about.what)
    return (
        f'<div class="card scroll" style="margin-top:1rem"><h3>Known {facts.about.what} rejected, class by class</h3>'
        f'<p class="why">{_text(said)}</p>'
        f"{_table('rates', ['class', 'judged', 'rejected', 'share', '95 % interval'], rows)}</div>"
    )


def _confusion(facts: Facts) -> str:
    if facts.known.labels is None:
        return ""
    table, columns = plots.confusion(facts), plots.confusion_columns(facts)
    if len(table) > MOST_CLASSES:  # a table of all pairs would be unreadable, and of 1,000 classes a hundred megabytes
        return _mistakes(facts, table, columns)
    head = "".join(f'<th scope="col"><span>{escape(name)}</span></th>' for name in columns)
    rows = []
    for name, counts in zip(columns, table, strict=False):
        total = max(1, sum(counts))
        cells = "".join(
            f'<td class="{_kind(name, column)}" style="--v:{count / total:.3f}" '
            f'title="{percent(count / total)} of {escape(name)}">{count}</td>'
            for column, count in zip(columns, counts, strict=True)
        )
        rows.append(f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>')
    many = " many" if len(columns) > UPRIGHT else ""
    why = f"Rows: true class of {facts.known.title} {facts.about.what}; columns: the class given, or rejected."
    return _heading("classes", "Confusion", why) + (
        f'<div class="card"><div class="scroll"><table class="confusion{many}"><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def _mistakes(facts: Facts, table: list[list[int]], columns: list[str]) -> str:
    """The most frequent mistakes among many classes."""
    known = f"{facts.known.title} {facts.about.what}"
    pairs = ((count, true, given) for true, counts in enumerate(table) for given, count in enumerate(counts))
    found = [(count, true, given) for count, true, given in pairs if count and true != given]
    rows = [
        [columns[true], columns[given], f"{count:,}", percent(count / sum(table[true]))]
        for count, true, given in sorted(found, key=lambda one: (-one[0], one[1:]))[:MISTAKES]
    ]
    if not rows:
        return _heading("classes", "Mistakes", f"Of the {known} none was rejected or given another class.")
    why = f"The most frequent of {len(found):,} kinds among {known} of {len(table):,} classes."
    shown = _table("mistakes", ["true class", "given", "times", "share"], rows)
    return _heading("classes", "Mistakes", why) + f'<div class="card scroll">{shown}</div>'


def _kind(row: str, column: str) -> str:
    return "rej" if column == plots.REJECTED_NAME else "hit" if row == column else "off"


def _model(facts: Facts) -> str:
    head = _heading("model", "The model", "What it was made of, and what its threshold promises.")
    return head + f'<div class="card">{_table("facts", [], facts.about.rows)}</div>'


def _table(kind: str, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows of text, the first cell of each its name."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{_text(cell)}</td>" for cell in cells)}</tr>'
        for name, *cells in rows
    )
    return f'<table class="{kind}">{f"<thead><tr>{head}</tr></thead>" if head else ""}<tbody>{body}</tbody></table>'


def _asset(name: str) -> str:
    return (files("wildspec.report") / "page" / name).read_text(encoding="utf-8")
