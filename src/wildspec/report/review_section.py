"""The part of the page to act from: rejected samples in groups, kept ones by class, and the list of all with its filters."""

from html import escape

from wildspec.report.facts import Facts, Sample
from wildspec.report.pool import Listed

TILES = 12  # groups shown; the list has all
MOST_CHIPS = 60  # classes shown


def groups_and_classes(facts: Facts) -> str:
    """Cards: what was rejected, as groups, and what was kept, class by class."""
    listed: Listed | None = facts.listed
    if listed is None or not len(listed):
        return ""
    cards = [_kept(facts, listed)]
    if listed.typical:
        cards.insert(0, _groups(facts, listed))
    return "".join(f'<div class="card" style="margin-bottom:1rem">{card}</div>' for card in cards if card)


def _groups(facts: Facts, listed: Listed) -> str:
    sizes, items = listed.sizes, []
    for number, rows in enumerate(listed.typical[:TILES]):
        likely = facts.about.classes[int(listed.likely[rows[0]])]
        shown = [int(listed.sample[row]) for row in rows if listed.sample[row] >= 0]
        pictures = "".join(picture(facts.samples[i], i) for i in shown if facts.samples[i].picture is not None)
        one = "one of its kind" if sizes[number] == 1 else f"{sizes[number]:,} like this"
        names = escape(", ".join(listed.names[row] for row in rows[:2]))
        items.append(
            f'<li><button class="group" type="button" data-g="{number}"><span class="mosaic">{pictures}</span>'
            f"<b>{one}</b><small>nearest class {escape(likely)}<br>{names}</small></button></li>"
        )
    rest = len(sizes) - len(items)
    holds = "holds" if rest == 1 else "hold"
    more = f" {_count(rest, 'smaller group')} {holds} {sum(sizes[TILES:]):,} more." if rest > 0 else ""
    what = facts.about.what
    why = (
        f"{_count(sum(sizes), 'rejected ' + what.removesuffix('s'))} in {_count(len(sizes), 'group')}, each about as alike "
        f"as {what} of one of your classes.{more} Choose one to list it below."
    )
    return f'<h3>Rejected, in groups</h3><p class="why">{escape(why)}</p><ul class="groups">{"".join(items)}</ul>'


def _count(count: int, one: str) -> str:
    return f"{count:,} {one}" + ("" if count == 1 else "s")


def _kept(facts: Facts, listed: Listed) -> str:
    counts = [0] * len(facts.about.classes)
    for place in listed.likely[~listed.rejected].tolist():
        counts[place] += 1
    order = sorted(range(len(counts)), key=lambda c: -counts[c])
    chips = "".join(
        f'<li><button class="plain" type="button" data-class="{c}">{escape(facts.about.classes[c])} '
        f"<b>{counts[c]:,}</b></button></li>"
        for c in order[:MOST_CHIPS]
    )
    many = f" The {MOST_CHIPS} largest of {len(order):,}." if len(order) > MOST_CHIPS else ""
    kept = _count(sum(counts), facts.about.what.removesuffix("s")) + (" was" if sum(counts) == 1 else " were")
    return (
        f'<h3>Kept, class by class</h3><p class="why">{kept} taken for one of your classes.{many} Choose a class to list it '
        f'below.</p><ul class="chips">{chips}</ul>'
    )


def work_list(facts: Facts) -> str:
    """The list of all samples: filters, a threshold to try, export."""
    listed: Listed | None = facts.listed
    if listed is None or not len(listed):
        return ""
    options = "".join(f'<option value="{i}">{escape(name)}</option>' for i, name in enumerate(facts.about.classes))
    groups = "".join(f'<option value="{g}">group {g + 1} ({n:,})</option>' for g, n in enumerate(listed.sizes[:200]))
    answered = '<option value="answered">answered by a person</option>' if any(listed.answers) else ""
    answered += '<option value="turned">changed by the answers</option>' if listed.turned.any() else ""
    part = f" Listed are {len(listed):,} of {listed.of:,}." if len(listed) < listed.of else ""
    return f"""<div class="card"><h3>All of them, to sort, filter and export</h3>
<p class="why">Try another threshold and see what it would change; nothing is written. What a fit
takes is no threshold but the share of {facts.about.what} like the labelled ones that it may reject
(<span class="nb">--alpha</span>).{escape(part)}</p>
<div class="try"><label for="f-slider">Threshold</label><input id="f-slider" type="range" min="0" max="1000" step="1">
<button class="plain" type="button" id="f-reset">as it is</button><p id="f-said" role="status"></p></div>
<div class="filters">
<label>Decision<select id="f-decision"><option value="">all</option><option value="rejected">rejected</option>
<option value="kept">kept</option><option value="changed">changed by the slider</option>{answered}</select></label>
<label>Class<select id="f-class"><option value="">all</option>{options}</select></label>
<label>Group<select id="f-group"><option value="">all</option>{groups}</select></label>
<label>Order<select id="f-order"><option value="high">most unlike first</option><option value="near">nearest to the threshold
</option><option value="low">most alike first</option></select></label>
<label>Score from<input id="f-low" type="number" step="any"></label>
<label>to<input id="f-high" type="number" step="any"></label>
<label>Name holds<input id="f-name" type="search"></label>
</div>
<p class="row"><span id="f-count" role="status"></span>
<button class="plain" type="button" id="f-clear">Clear filters</button>
<button class="plain" type="button" id="f-export">Export as csv</button></p>
<ul class="thumbs" id="f-list"></ul><p><button class="plain" type="button" id="f-more">Show more</button></p></div>"""


def picture(sample: Sample, place: int) -> str:
    """An image whose address the script puts in: every picture is in the page once."""
    tiny = "tiny" if sample.picture is not None and sample.picture[:4] == b"\x89PNG" else ""
    return f'<img data-p="{place}" alt="" class="{tiny}" decoding="async">'
