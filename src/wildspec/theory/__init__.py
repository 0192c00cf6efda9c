"""Section 4 and appendices B-D: the five-node example exactly and in closed form, the theorems, worlds of any size."""

from wildspec.theory.analysis import Comparison, WorldAnalysis
from wildspec.theory.first_order import FirstOrder, class_advantage, critical_beta, critical_ratio, first_order
from wildspec.theory.five_node import FiveNode, five_node
from wildspec.theory.grid import PlaneResult, paper_axis, plane
from wildspec.theory.measured import Strengths, cell_strengths, measure_strengths
from wildspec.theory.theorems import TheoremCheck, error_slopes
from wildspec.theory.world import domain_class_graph, what_if

__all__ = [
    "Comparison", "FirstOrder", "FiveNode", "PlaneResult", "Strengths", "TheoremCheck", "WorldAnalysis", "cell_strengths",
    "class_advantage", "critical_beta", "critical_ratio", "domain_class_graph", "error_slopes", "first_order", "five_node",
    "measure_strengths", "paper_axis", "plane", "what_if",
]  # fmt: skip
