"""Figures, screen tables and one self-contained HTML page, made from the tables of a tournament; runs nothing.

Every epsilon that is shown is read from the record of the match that it belongs to.
"""

from __future__ import annotations

import base64
import decimal
import io
import math
import textwrap
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from dp_experts_env.spec import FloatArray, IntArray

if TYPE_CHECKING:
    # Slow to import: who prints a table needs neither.
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dp_experts_env.privacy.audit import Audit

NOTES = {
    "What is private": (
        "Epsilon and delta are an accounted upper bound on the privacy loss of the learner's sequence of choices, "
        "proved for one run and read from the record of that run; nothing here was audited. Regret, losses, best loss "
        "and seeds are computed from the losses themselves: non-private diagnostics, for simulations and public data."
    ),
    "What a neighbour is": (
        "Two loss sequences are neighbours if they differ in one round (adjacency 'replace': by any other loss vector; "
        "'zero_out': by zeros). In the tumour game a round is one patient. In the temperature and rain games one "
        "observation enters the forecasts of many rounds, so replacing a round is not replacing an observation."
    ),
    "The best of many runs": (
        "Who picks the best of m learners, budgets or tunings after looking at their regret has made one more query of "
        "the losses. The epsilon of the best run is not that of the choice: m runs and the choice cost more."
    ),
    "Not private here": (
        "The learner's guarantee is proved against weaker adversaries than this one. It was played all the same, and "
        "its choices carry no guarantee in that match."
    ),
    "Regret": (
        "The learner's total loss minus the best fixed expert's on the realised losses, mean over the games with a 95% "
        "confidence interval (Student). Against an adaptive adversary this is not policy regret: another learner "
        "would have met other losses, and another best expert."
    ),
    "Bound": "Proved bound on the expected regret against adversaries of this kind; 'none' where none is proved.",
    "Floor": (
        "What the adversary proves the expected regret of every learner with this guarantee to be at least; 'none' "
        "where it proves nothing."
    ),
    "Ratio": (
        "Mean regret divided by the reference learner's (by default non-private Hedge) in the same games; left out "
        "where the reference's is not positive beyond its own interval."
    ),
}
"""What a reader of the numbers must know."""

# Okabe and Ito's palette without its yellow, which white paper swallows: told apart by colour-blind readers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A4B9E")
STYLES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (6, 1.5, 1, 1.5)), (0, (1.2, 1.2)))
GREYS = ("#000000", "#808080")

SOFTWARE = "dp-experts-env"
"""Stamped into every PNG, so that a file of ours can be told from another before it is replaced."""


# -- the words for a row -----------------------------------------------------------------------------------------------


def budget(row: Any) -> str:
    """Return a row's privacy in a few words, from its record."""
    if row.privacy == "private":
        return f"ε={upper(row.epsilon)}, δ={upper(row.delta)}"
    if row.privacy == "leaky":
        return f"leaky, says ε={upper(row.epsilon)}" if math.isfinite(row.epsilon) else "leaky"
    if row.privacy == "not private here":
        return "none here"
    return "none"


def upper(value: float) -> str:
    """Return an upper bound with three figures, rounded up: what is printed is true as well."""
    return f"{float(decimal.Context(prec=3, rounding=decimal.ROUND_CEILING).create_decimal(repr(float(value)))):g}"


def name(row: Any) -> str:
    """Return the learner's label with the budget it was built with where its record shows no epsilon."""
    asked = row.privacy != "private" and math.isfinite(row.asked_epsilon)
    return f"{row.learner} (asked ε={row.asked_epsilon:g})" if asked else str(row.learner)


def number(value: float, missing: str = "none") -> str:
    """Return a mean, a bound or a ratio with three or so figures."""
    if not math.isfinite(value):
        return missing
    if value == 0.0:
        return "0"
    return f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}" if abs(value) < 999.95 else f"{value:.0f}"


def plus_minus(mean: float, half: float) -> str:
    """Return a mean with the half width of its interval."""
    return f"{number(mean)} ± {number(half)}" if math.isfinite(half) else number(mean)


# -- the screen --------------------------------------------------------------------------------------------------------


def screen(table: pd.DataFrame, top: int | None = None) -> Iterator[RenderableType]:
    """Yield one rich table an adversary, rows by mean regret.

    Args:
        table: a tournament's table.
        top: show only this many learners of each budget, and of those without one; ``None`` for all.
    """
    for adversary, rows in table.groupby("adversary", sort=False):
        first = rows.iloc[0]
        shown = rows.sort_values(["mean_regret", "learner"], kind="stable")
        if top is not None:
            best = shown.groupby("asked_epsilon", dropna=False, sort=False).head(top)
            # A line that says how many are missing takes the place of one.
            shown = best if len(shown) - len(best) > 1 else shown
        hidden = len(rows) - len(shown)
        grid = Table(
            title=Text.assemble(
                (str(adversary), "bold"),
                f"  {first.kind}, N={first.num_experts}, T={first.horizon}, {games(first.num_games)}",
            ),
            title_justify="left",
            title_style="",
            caption=f"and {hidden} more in the files" if hidden else None,
            caption_justify="left",
            header_style="bold",
        )
        grid.add_column("learner", overflow="fold", min_width=12)
        grid.add_column("privacy", overflow="fold", min_width=9)
        floors = ("floor",) if shown["regret_floor"].notna().any() else ()
        for heading in (*floors, "mean regret", "best loss", "bound", "ratio"):
            grid.add_column(heading, justify="right", no_wrap=True)
        for row in _rows(shown):
            grid.add_row(
                escape(name(row)),
                Text(budget(row), style="" if row.privacy == "private" else "red" if row.privacy == "leaky" else "dim"),
                *((number(row.regret_floor),) if floors else ()),
                plus_minus(row.mean_regret, row.ci95),
                number(row.best_loss),
                number(row.regret_bound),
                number(row.ratio, "-"),
            )
        yield grid


def games(count: int) -> str:
    """Return a number of games in words."""
    return "1 game" if count == 1 else f"{count} games"


# -- figures -----------------------------------------------------------------------------------------------------------


def regret_figure(table: pd.DataFrame, curves: pd.DataFrame) -> Figure:
    """Return the regret curves: one panel an adversary, one line a learner, shaded 95% intervals.

    Args:
        table: a tournament's table, or some of its rows; at most one row a learner and adversary.
        curves: the tournament's curves.
    """
    adversaries = list(dict.fromkeys(table["adversary"]))
    columns = min(len(adversaries), 3 if len(adversaries) <= 9 else 4)
    rows = math.ceil(len(adversaries) / columns)
    styles = _styles(table)
    figure = _figure(max(4.2 * columns, 6.4), 3.1 * rows + 0.22 * math.ceil(len(styles) / columns) + 0.8)
    panels = figure.subplots(rows, columns, squeeze=False)
    by_cell = {
        (adversary, learner, _key(asked)): part
        for (adversary, learner, asked), part in curves.groupby(["adversary", "learner", "asked_epsilon"], dropna=False)
    }
    handles: dict[str, Any] = {}
    unguarded = False
    for panel, adversary in zip(panels.flat, adversaries, strict=False):
        finals = []
        for row in _rows(table[table["adversary"] == adversary]):
            part = by_cell[row.adversary, row.learner, _key(row.asked_epsilon)]
            here = row.privacy == "not private here"
            unguarded |= here
            handles[row.learner] = _draw(
                panel,
                part["round"].to_numpy(),
                part["mean_regret"].to_numpy(),
                part["ci95"].to_numpy(),
                marker="x" if here else "",
                shade=0.15 if len(styles) <= 10 else 0.07,
                **styles[row.learner],
            )
            finals.append(float(part["mean_regret"].iloc[-1]))
        _scale(panel, finals)
        first = table[table["adversary"] == adversary].iloc[0]
        panel.set_title(f"{adversary}  ({first.kind}, N={first.num_experts})", fontsize=10)
    for panel in panels.flat[len(adversaries) :]:
        panel.set_axis_off()
    for panel in panels[-1]:
        panel.set_xlabel("round")
    for panel in panels[:, 0]:
        panel.set_ylabel("regret")
    order = [learner for learner in styles if learner in handles]
    figure.legend(
        [handles[learner] for learner in order],
        [_legend(learner, table[table["learner"] == learner]) for learner in order],
        loc="outside lower center",
        ncols=max(1, min(columns, len(order))),
        fontsize=8.5,
        frameon=False,
        title="x: no guarantee against this kind of adversary, played without" if unguarded else None,
        title_fontsize=8,
    )
    return figure


def curve_figure(
    rounds: IntArray, mean: FloatArray, half: FloatArray, title: str, label: str, bound: float = math.nan
) -> Figure:
    """Return one learner's regret curve with its 95% interval, and the proved bound as a line where there is one."""
    figure = _figure(7.0, 4.2)
    panel = figure.subplots()
    _draw(panel, rounds, mean, half, color=COLOURS[0], linestyle="-", zorder=3, label=label)
    if math.isfinite(bound):
        panel.axhline(bound, color=COLOURS[1], linestyle=STYLES[1], label=f"proved bound on the mean: {number(bound)}")
    _scale(panel, [float(mean[-1]), *([bound] if math.isfinite(bound) else [])])
    panel.set_title(title, fontsize=10)
    panel.set_xlabel("round")
    panel.set_ylabel("regret")
    panel.legend(fontsize=8.5, frameon=False)
    return figure


def trade_off_figure(audit: Audit) -> Figure:
    """Return what the audit's statistic trades, false alarm against detection, beside what the claim allows.

    A point is an event: its probability in the world that it does not favour, against that in the one that it does.
    Under (epsilon, delta)-DP every event lies in the shaded region (Kairouz, Oh and Viswanath 2015). The curve is
    estimated; the mark is the event that was counted.
    """
    figure = _figure(5.6, 5.2)
    panel = figure.subplots()
    claim = audit.claimed
    if claim is not None and math.isfinite(claim.epsilon):
        across = np.linspace(0.0, 1.0, 2001)
        reach = math.exp(min(claim.epsilon, 700.0))
        upper = np.minimum(np.minimum(reach * across + claim.delta, 1.0 - (1.0 - claim.delta - across) / reach), 1.0)
        # The region is its own mirror image at the centre of the square.
        label = f"what ({claim.epsilon:g}, {claim.delta:g})-DP allows"
        panel.fill_between(across, 1.0 - upper[::-1], upper, color=COLOURS[0], alpha=0.15, linewidth=0, label=label)
        panel.plot(across, upper, color=COLOURS[0], linewidth=1.0)
    panel.plot([0.0, 1.0], [0.0, 1.0], color="#bbbbbb", linewidth=0.8, zorder=0)
    panel.plot(audit.false_alarm, audit.detection, color=COLOURS[1], linewidth=1.4, label="events of the statistic")
    favoured, other = audit.favoured, 1 - audit.favoured
    point = [audit.hits[world] / audit.trials[world] for world in (other, favoured)]
    label = f"the event that was counted: ε ≥ {audit.epsilon_lower:.3g}"
    panel.plot(*point, marker="o", color=COLOURS[1], linestyle="", label=label, clip_on=False, zorder=4)
    lines = [
        audit.learner,
        f"against {audit.pair}",
        f"by {audit.view}, confidence {audit.confidence:g}: {audit.verdict}",
    ]
    panel.set_title("\n".join(textwrap.shorten(line, 88, placeholder=" ...") for line in lines), fontsize=8.5)
    panel.set_xlabel(f"false alarm: probability in world {other}")
    panel.set_ylabel(f"detection: probability in world {favoured}")
    panel.set_xlim(0.0, 1.0)
    panel.set_ylim(0.0, 1.0)
    panel.set_aspect("equal")
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8)
    panel.legend(fontsize=8.5, frameon=False, loc="lower right")
    return figure


def _figure(width: float, height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _key(asked: Any) -> float | None:
    # A NaN is no key: it differs from itself.
    return None if math.isnan(asked) else float(asked)


def _styles(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return how each learner is drawn, those with a guarantee somewhere in colour and first."""
    private = table["privacy"].isin(("private", "not private here", "leaky"))
    coloured = list(dict.fromkeys(table["learner"][private]))
    others = [learner for learner in dict.fromkeys(table["learner"]) if learner not in coloured]
    styles: dict[str, dict[str, Any]] = {}
    for index, learner in enumerate(coloured):
        style = STYLES[(index // len(COLOURS)) % len(STYLES)]
        styles[learner] = {"color": COLOURS[index % len(COLOURS)], "linestyle": style, "zorder": 3}
    for index, learner in enumerate(others):
        grey, style = divmod(index, len(STYLES) - 1)
        styles[learner] = {"color": GREYS[grey % len(GREYS)], "linestyle": STYLES[1 + style], "zorder": 2}
    return styles


def _legend(learner: str, rows: pd.DataFrame) -> str:
    private = rows[rows["privacy"] == "private"]
    if len(private):
        shown = " to ".join(
            dict.fromkeys(f"{value:g}" for value in (private["epsilon"].min(), private["epsilon"].max()))
        )
        return f"{learner}, ε={shown}"
    return f"{learner}, {budget(_rows(rows)[0])}".replace("none", "not private")


def _draw(panel: Axes, rounds: Any, mean: Any, half: Any, marker: str = "", shade: float = 0.15, **style: Any) -> Any:
    (line,) = panel.plot(rounds, mean, linewidth=1.4, **style)
    if np.isfinite(half).all():
        panel.fill_between(rounds, mean - half, mean + half, color=style["color"], alpha=shade, linewidth=0, zorder=1)
    if marker:
        panel.plot(rounds[-1:], mean[-1:], marker=marker, color=style["color"], clip_on=False, zorder=4)
    return line


def _scale(panel: Axes, finals: list[float]) -> None:
    sizes = [abs(value) for value in finals if value]
    # On a linear axis whatever is a twentieth of the largest lies on the floor.
    if sizes and max(sizes) > 20.0 * max(float(np.median(sizes)) / 4.0, min(sizes), 1.0):
        panel.set_yscale("symlog", linthresh=max(1.0, max(sizes) / 100.0), linscale=0.6)
    panel.axhline(0.0, color="#bbbbbb", linewidth=0.8, zorder=0)
    panel.grid(alpha=0.25, linewidth=0.6)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8)
    panel.margins(x=0.02)


def png(figure: Figure) -> bytes:
    """Return a figure as a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110, metadata={"Software": SOFTWARE})
    return buffer.getvalue()


# -- files -------------------------------------------------------------------------------------------------------------


def figures(table: pd.DataFrame, curves: pd.DataFrame) -> dict[str, tuple[str, bytes]]:
    """Return title and PNG by file name: one figure a budget, each with the learners that take none."""
    asked = sorted(value for value in table["asked_epsilon"].unique() if math.isfinite(value))
    if not asked:
        return {"regret.png": ("Regret", png(regret_figure(table, curves)))}
    made = {}
    for epsilon in asked:
        rows = table[table["asked_epsilon"].isna() | (table["asked_epsilon"] == epsilon)]
        title = f"Regret of learners built for ε={epsilon:g}, and of those that take no budget"
        made[f"regret_epsilon_{epsilon:g}.png"] = (title, png(regret_figure(rows, curves)))
    return made


def page(table: pd.DataFrame, run: dict[str, Any], made: dict[str, tuple[str, bytes]]) -> str:
    """Return one self-contained HTML page: an overview, the figures, every row, and what the numbers mean."""
    from jinja2 import Environment, StrictUndefined

    source = (resources.files("dp_experts_env.study") / "page.html").read_text(encoding="utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(number=number)
    adversaries = list(dict.fromkeys(table["adversary"]))
    learners: dict[tuple[str, float | None], dict[str, Any]] = {}
    for row in _rows(table):
        learners.setdefault((str(row.learner), _key(row.asked_epsilon)), {})[row.adversary] = row
    worst = table.groupby("adversary")["mean_regret"].max().to_dict()
    return environment.from_string(source).render(
        adversaries=adversaries,
        learners=learners,
        shade=lambda row: round(0.55 * min(1.0, max(0.0, row.mean_regret) / max(worst[row.adversary], 1e-9)), 3),
        groups={one: _rows(rows.sort_values("mean_regret")) for one, rows in table.groupby("adversary", sort=False)},
        figures=[(title, base64.b64encode(data).decode()) for title, data in made.values()],
        notes=NOTES,
        run=run,
        name=name,
        budget=budget,
        plus_minus=plus_minus,
    )


def _rows(table: pd.DataFrame) -> list[Any]:
    return list(table.itertuples())


def write(table: pd.DataFrame, curves: pd.DataFrame, run: dict[str, Any], folder: Path) -> list[Path]:
    """Write the figures and the page ``report.html`` into a tournament's folder, in place of earlier ones."""
    made = figures(table, curves)
    for old in folder.glob("regret*.png"):
        if is_ours(old):
            old.unlink()
    paths = []
    for file, (_, data) in made.items():
        paths.append(folder / file)
        paths[-1].write_bytes(data)
    paths.append(folder / "report.html")
    paths[-1].write_text(page(table, run, made), encoding="utf-8")
    return paths


def is_ours(path: Path) -> bool:
    """Whether a PNG was made here."""
    with path.open("rb") as file:
        return SOFTWARE.encode() in file.read(4096)
