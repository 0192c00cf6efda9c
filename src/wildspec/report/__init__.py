"""One self-contained HTML page about a fitted model: `write_report(model, path)`."""

from wildspec.report.write import report_html, write_report

__all__ = ["report_html", "write_report"]
