"""Names that bundles and benchmark records of version 0.1 hold, and what they are called now."""

FORMER_NAMES = {"settle": "warmup_head", "promote": "pseudo_label"}  # of hyper-parameters and stages


def current_name(name: str) -> str:
    """Today's name of a hyper-parameter or stage: "promote2" -> "pseudo_label2"."""
    word = name.rstrip("0123456789")
    return FORMER_NAMES.get(word, word) + name[len(word) :]
