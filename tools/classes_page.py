"""The part of docs/results/pacs-embeddings.md on other known classes, from the JSON of benchmarks/pacs_classes.py."""

from typing import Any

from wildspec.bench.embedding_methods import METHODS
from wildspec.bench.embedding_tables import bars, by_pair, summarize

INTRO = """
## Other classes known and unknown

The defaults were settled on dog, elephant, giraffe and guitar as known classes. Are they made for these? The seven classes
turned round: four other neighbours in the alphabet known, three not; everything else as above, seed 0, all wild samples, 12
pairs; per cent, means over pairs, each beside the best of all {baselines} baselines in that column. Nothing was changed
after looking. `docs/results/pacs-classes.json`, written by

```
{command}
```

"""


def section(document: dict[str, Any]) -> str:
    """Heading, one line for each choice of known classes, and how often the bars are met."""
    rows, met, won = [], [0, 0], {True: [0, 0], False: [0, 0]}  # whether sketches are on one side: pairs won, of how many
    for entry in document["runs"].values():
        records = entry["records"]
        _, accuracy, separation, clean, pairs = found = bars(records, "all")
        ours = summarize(records, "all")["spectral"]
        rows.append(
            f"| {', '.join(entry['known'])} | {_beside(separation)} | {pairs['ours']} | {_beside(accuracy)} | "
            f"{_beside(clean)} | {100 * ours['covariate_kept'][0]:.1f} | {100 * ours['detection_rate'][0]:.1f} |"
        )
        met = [met[0] + sum(bar["met"] for bar in found), met[1] + len(found)]
        for pair, values in by_pair(records, "all").items():
            best = max(value for name, value in values.items() if name != "spectral")
            count = won["sketch" in pair]
            count[:] = count[0] + int(values["spectral"] > best), count[1] + 1
    head = [
        "| known | fs-AUROC, best baseline | pairs above every baseline | OOD-Acc, best baseline | ID-Acc, best baseline | "
        "cov. kept | unknown rejected |",
        "|---" + "|---:" * 6 + "|",
    ]
    without, sketches = won[False], won[True]
    told = (
        f"Of the five bars above, asked of each choice, {met[0]} of {met[1]} are met. fs-AUROC is above every baseline in "
        f"{without[0]} of {without[1]} pairs of photographs, paintings and cartoons, and in {sketches[0]} of {sketches[1]} "
        "with sketches on one side."
    )
    baselines = sum(not method.ours for method in METHODS.values())
    text = INTRO.format(command=document["environment"]["command"], baselines=baselines)
    return text + "\n".join([*head, *rows]) + "\n\n" + told + "\n"


def _beside(bar: dict[str, Any]) -> str:
    """Ours, in bold where it is above the best baseline, and that."""
    mine, other = f"{100 * bar['ours']:.1f}", f"{100 * bar['against']:.1f} ({METHODS[bar['baseline']].title})"
    return f"{f'**{mine}**' if bar['ours'] > bar['against'] else mine}, {other}"
