"""Where a score becomes a decision: kept or rejected. Works on scores and on features; knows no detector.

    scores        scores from outside, checked
    cut           Otsu's cut between two groups, and the one test whether there are two
    attribution   which wild samples belong to a known class
    shares        what a wild pool is made of: pi_s, pi_c
    calibration   the conformal threshold, an exact promise
    class_rates   how often each known class is rejected, with exact intervals
    joint         the threshold raised to keep known classes under the pool's shift, an estimate
    decision      `Decision`: a fitted detector, its calibration, what is promised; saved and exported
    shift         which wild samples are displaced, and by how much
    rule          the one rule: class and strangeness of a sample, for rows and for images
    rule_graph    the rule in tensor operations, for export
    thresholds    where the rule rejects: a promise and an estimate
    questions     which wild samples to ask a person about
    answers       what a person said about them, learned
    drawn         answers drawn at random: shares of the pool, a promise for shifted samples
    review        `Review`: asks, notes, takes back, learns; behind the estimators, the command and the page
    verdicts      what is said about samples, in rows and in words
"""
