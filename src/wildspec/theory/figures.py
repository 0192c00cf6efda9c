"""The paper's theory figures as matplotlib figures; whoever calls decides where they go.

surface       S(f) over (alpha', beta') with the 9/8 alpha = beta boundary
difference    heatmap of S(f) - S(f_1) and of its sign
eigenvalues   the five eigenvalues along beta', exact and first order, three scenarios
graph         the five-node graph, the two scenarios
convergence   how the closed forms' errors shrink
"""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from wildspec.theory.first_order import critical_beta, critical_ratio, first_order
from wildspec.theory.five_node import five_node
from wildspec.theory.grid import paper_axis, plane
from wildspec.theory.theorems import FIVE_NODE_THEOREMS

INK, CLASS, DOMAIN, OTHER = "#222222", "#2a6f97", "#c8553d", "#9aa0a6"
ALPHA, BETA = r"$\alpha'=\alpha/\rho$", r"$\beta'=\beta/\rho$"


def surface_figure(*, gamma: float = 0.0, eta_u: float = 5.0, eta_l: float = 1.0, cells: int = 160) -> Figure:
    """S(f) of ``separate``: the surface, and the same as a map with both boundaries."""
    axis = paper_axis(cells)
    result = plane("separate", axis, axis, gamma=gamma, eta_u=eta_u, eta_l=eta_l)
    values, classes_win = result.separability, result.probe_errors == 0
    figure = Figure(figsize=(10.5, 4.5), layout="constrained")
    solid = figure.add_subplot(1, 2, 1, projection="3d")
    a, b = np.meshgrid(axis, axis, indexing="ij")
    scale = Normalize(float(values.min()), float(values.max()))
    for side in (classes_win, ~classes_win):  # two sheets: S(f) jumps where they meet
        sheet = np.where(side, values, np.nan)
        solid.plot_surface(
            a, b, sheet, cmap="viridis", norm=scale, rcount=cells, ccount=cells, linewidth=0, antialiased=False
        )
    solid.set(xlabel=ALPHA, ylabel=BETA, title=r"Separability $\mathcal{S}(f)$")
    solid.set_zlabel(r"$\mathcal{S}(f)$", labelpad=3)
    solid.view_init(elev=26, azim=-64)
    solid.set_box_aspect((1, 1, 0.75), zoom=0.93)
    solid.tick_params(labelsize=8, pad=1)
    flat = figure.add_subplot(1, 2, 2)
    mesh = flat.pcolormesh(axis, axis, values.T, cmap="viridis", norm=scale, shading="nearest", rasterized=True)
    levels = np.linspace(scale.vmin or 0.0, scale.vmax or 1.0, 10)[1:-1]
    for side in (classes_win, ~classes_win):
        sheet = np.ma.masked_array(values, ~side)
        lines = flat.contour(axis, axis, sheet.T, levels=levels, colors="white", linewidths=0.6, alpha=0.7)
        flat.clabel(lines, fontsize=7, fmt="%.1f")
    _boundaries(flat, axis, eta_u, eta_l, gamma, classes_win)
    flat.set(
        xlabel=ALPHA,
        ylabel=BETA,
        title=f"Classes win {'below the boundary, domains above' if gamma == 0 else 'right of and below the boundary'}",
        xlim=_ends(axis),
        ylim=_ends(axis),
    )
    flat.legend(loc="upper left", fontsize=8, framealpha=0.95)
    figure.colorbar(mesh, ax=flat, label=r"$\mathcal{S}(f)$", pad=0.02)
    return figure


def difference_figure(*, gamma: float = 0.0, eta_u: float = 5.0, eta_l: float = 1.0, cells: int = 200) -> Figure:
    """S(f) - S(f_1) and its sign: is an unknown class easier to detect in a domain of its own?"""
    axis = paper_axis(cells)
    found = {
        name: plane(name, axis, axis, gamma=gamma, eta_u=eta_u, eta_l=eta_l).separability
        for name in ("separate", "shared")
    }
    gap = found["separate"] - found["shared"]
    figure = Figure(figsize=(10.5, 4.3), layout="constrained")
    heat, sign = figure.subplots(1, 2)
    low, high = float(gap.min()), float(gap.max())
    norm = TwoSlopeNorm(0.0, min(low, -1e-6), max(high, 1e-6))
    mesh = heat.pcolormesh(axis, axis, gap.T, cmap="RdBu", norm=norm, shading="nearest", rasterized=True)
    bar = figure.colorbar(mesh, ax=heat, pad=0.02, label=r"$\mathcal{S}(f)-\mathcal{S}(f_1)$")
    bar.ax.set_yscale("linear")
    heat.set_title("Separability gained by a domain of its own")
    shades = ListedColormap(["white", INK])
    sign.pcolormesh(
        axis, axis, (gap > 0).T.astype(float), cmap=shades, vmin=0, vmax=1, shading="nearest", rasterized=True
    )
    sign.set_title("Where there is a gain")
    marks = [Patch(facecolor=INK, edgecolor=INK, label=r"$\mathcal{S}(f)>\mathcal{S}(f_1)$")]
    marks.append(Patch(facecolor="white", edgecolor=INK, label=r"$\mathcal{S}(f)<\mathcal{S}(f_1)$"))
    sign.legend(handles=marks, loc="upper left", fontsize=8, framealpha=1.0)
    for axes in (heat, sign):
        axes.set(xlabel=ALPHA, ylabel=BETA, xlim=_ends(axis), ylim=_ends(axis))
    return figure


def eigenvalue_figure(
    *, alpha: float = 0.04, gamma: float = 0.0, eta_u: float = 5.0, eta_l: float = 1.0
) -> Figure:
    """Eigenvalues along beta' at fixed alpha': exact in full lines, first order dashed. A dotted line where domains start to
    win, at gamma = 0: it is known there."""
    axis = np.linspace(0.0005, 0.1, 200)
    figure = Figure(figsize=(10.5, 3.9), layout="constrained")
    for axes, scenario in zip(
        figure.subplots(1, 3, sharey=True), ("separate", "shared", "unlabelled"), strict=True
    ):
        exact = plane(scenario, np.array([alpha]), axis, gamma=gamma, eta_u=eta_u, eta_l=eta_l).values[0]
        printed = np.array([first_order(scenario, alpha, b, label_weight=5 * eta_l / eta_u).values for b in axis])
        for rank in range(5):
            kept = rank < 3
            colour = (CLASS, CLASS, CLASS, OTHER, OTHER)[rank]
            axes.plot(axis, exact[:, rank], color=colour, lw=2.0 if kept else 1.4, zorder=3)
            axes.plot(axis, printed[:, rank], color=INK, lw=0.9, ls=(0, (4, 3)), zorder=4)
        if scenario != "shared" and gamma == 0:
            limit = critical_beta(alpha, eta_u, eta_l if scenario == "separate" else 0.0)
            if limit < axis[-1]:
                axes.axvline(limit, color=DOMAIN, lw=1.0, ls=":")
                for text, side, shift in (("classes win", "right", -5), ("domains win", "left", 5)):
                    axes.annotate(
                        text, (limit, 0.03), xycoords=("data", "axes fraction"), fontsize=8, color=DOMAIN, ha=side,
                        xytext=(shift, 0), textcoords="offset points",
                    )  # fmt: skip
        axes.set(title=f"scenario {scenario}", xlabel=BETA, xlim=(0, axis[-1]), xticks=np.arange(0, 0.1, 0.02))
        axes.grid(color="#e4e4e4", lw=0.6)
    figure.axes[0].set_ylabel(rf"eigenvalues at $\alpha'={alpha:g}$")
    marks = [
        Line2D([], [], color=CLASS, lw=2, label=r"exact, kept ($k=3$)"),
        Line2D([], [], color=OTHER, lw=1.4, label="exact, dropped"),
        Line2D([], [], color=INK, lw=0.9, ls="--", label="first order"),
    ]
    figure.legend(handles=marks, fontsize=8.5, loc="outside lower center", ncols=3, frameon=False)
    return figure


def graph_figure(*, alpha: float = 0.05, beta: float = 0.03) -> Figure:
    """The five-node graph in both scenarios: line width = transition probability, colour = why the edge is there."""
    figure = Figure(figsize=(9.6, 3.6), layout="constrained")
    for axes, scenario, letter in zip(figure.subplots(1, 2), ("separate", "shared"), "ab", strict=True):
        T = five_node(scenario, 1.0, alpha, beta).transition
        place = {0: (0, 1), 1: (0, 0), 2: (1.5, 1), 3: (1.5, 0), 4: (2.75, 0.5)}
        for i in range(5):
            for j in range(i):
                (x0, y0), (x1, y1) = place[i], place[j]
                if T[i, j] == 0:
                    axes.plot([x0, x1], [y0, y1], color=OTHER, lw=0.9, ls=":", zorder=0)
                else:
                    same_class = i < 4 and j < 4 and i % 2 == j % 2
                    axes.plot(
                        [x0, x1],
                        [y0, y1],
                        color=CLASS if same_class else DOMAIN,
                        lw=90 * T[i, j],
                        zorder=1,
                        alpha=0.9,
                    )
        for node, name in enumerate(
            ("angel\nsketch", "tiger\nsketch", "angel\npainting", "tiger\npainting", "panda")
        ):
            face = ("#e8f1f8", "#e8f1f8", "#fbf0e4", "#fbf0e4", "#eeeeee")[node]
            axes.scatter(*place[node], s=2600, color=face, edgecolor=INK, linewidth=1.2, zorder=2)
            axes.annotate(name, place[node], ha="center", va="center", fontsize=9, zorder=3, color=INK)
        where = "a domain of its own" if scenario == "separate" else "the domain of the paintings"
        axes.set_title(f"({letter}) panda in {where}")
        axes.set(xlim=(-0.45, 3.2), ylim=(-0.42, 1.42))
        axes.axis("off")
    marks = [
        Line2D([], [], color=CLASS, lw=4, label=r"same class, other domain: $\alpha$"),
        Line2D([], [], color=DOMAIN, lw=4, label=r"same domain, other class: $\beta$"),
        Line2D([], [], color=OTHER, lw=1.2, ls=":", label=r"neither: $\gamma\approx 0$"),
        Line2D([], [], marker="o", ls="", ms=9, mfc="#e8f1f8", mec=INK, label="ID, labelled"),
        Line2D([], [], marker="o", ls="", ms=9, mfc="#fbf0e4", mec=INK, label="covariate shift"),
        Line2D([], [], marker="o", ls="", ms=9, mfc="#eeeeee", mec=INK, label="semantic shift"),
    ]
    figure.legend(
        handles=marks,
        loc="outside lower center",
        ncols=6,
        fontsize=8,
        columnspacing=1.2,
        handletextpad=0.5,
        frameon=False,
    )
    return figure


def convergence_figure(*, alpha: float = 2.0, beta: float = 1.0) -> Figure:
    """Errors of the closed forms along (alpha', beta') = scale (2, 1): slope 2 is first-order accuracy."""
    scales = np.logspace(-5, -2, 13)
    figure = Figure(figsize=(6.4, 4.3), layout="constrained")
    axes = figure.subplots()
    rows = [
        ("4.1", "eigenvalues", "Theorem 4.1: eigenvalues", CLASS, "D"),
        ("4.1", "eigenspace", "Theorem 4.1: eigenvectors", CLASS, "s"),
        ("4.2", "S(f)", r"Theorem 4.2: $\mathcal{S}(f)$ as printed", DOMAIN, "o"),
        ("4.2", "corrected", r"$\mathcal{S}(f)$, linear term corrected", DOMAIN, "s"),
        ("B.1", "eigenvalues", "Theorem B.1: eigenvalues", OTHER, "o"),
    ]
    for theorem, name, label, colour, marker in rows:
        errors = [FIVE_NODE_THEOREMS[theorem](alpha * s, beta * s).errors[name] for s in scales]
        axes.loglog(
            scales,
            errors,
            color=colour,
            marker=marker,
            ms=7 if marker == "D" else 4,
            lw=1.3,
            mfc="white" if marker == "s" else None,
            label=label,
        )
    for slope, height in ((1, 0.3), (2, 25.0)):
        axes.loglog(scales, height * scales**slope, color=INK, lw=0.8, ls=":")
        axes.annotate(f"slope {slope}", (scales[1], height * scales[1] ** slope), fontsize=8, xytext=(6, -4),
                      textcoords="offset points", va="top")  # fmt: skip
    axes.set(
        xlabel=rf"$\varepsilon$, with $\alpha'={alpha:g}\varepsilon$, $\beta'={beta:g}\varepsilon$",
        ylabel="|closed form - exact|",
    )
    axes.set_title("How the closed forms approach the exact problem")
    axes.grid(color="#e4e4e4", lw=0.6)
    axes.legend(fontsize=8)
    return figure


FIGURES: dict[str, Callable[..., Figure]] = {
    "surface": surface_figure,
    "difference": difference_figure,
    "eigenvalues": eigenvalue_figure,
    "graph": graph_figure,
    "convergence": convergence_figure,
}


def _boundaries(
    axes: Axes, axis: np.ndarray, eta_u: float, eta_l: float, gamma: float, classes_win: np.ndarray
) -> None:
    """The first-order line, and the exact one: in closed form at gamma = 0, else drawn between the (n, n) cells."""
    ratio = critical_ratio(eta_u, eta_l)
    where = "" if gamma == 0 else r", $\gamma=0$"
    text = r"$\frac{9}{8}\alpha=\beta$" if ratio == 9 / 8 else rf"${ratio:.3g}\,\alpha=\beta$"
    axes.plot(axis, ratio * axis, color="black", lw=1.3, ls="--", label=f"{text}, first order{where}")
    if classes_win.all() or not classes_win.any():
        return
    drawn = np.empty((0, 2))
    if gamma == 0:
        drawn = np.array([(a, critical_beta(a, eta_u, eta_l)) for a in axis])
        drawn = drawn[np.isfinite(drawn).all(axis=1)]
    else:
        axes.contour(axis, axis, classes_win.T.astype(float), levels=[0.5], colors=DOMAIN, linewidths=1.6)
    axes.plot(*drawn.T, color=DOMAIN, lw=1.6, label="exact boundary")


def _ends(axis: np.ndarray) -> tuple[float, float]:
    return float(axis[0]), float(axis[-1])
