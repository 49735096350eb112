"""Plans against every other choice of widths, and what hysteresis may and may not do."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ebbtide.engine.errors import FitError
from ebbtide.engine.precision.hull import F64, I64, U8
from ebbtide.engine.precision.width_plan import ImpossibleTarget, WidthPlanner

WIDTHS = 5


@dataclass
class Blocks:
    """A small instance: i64[B, 5] pages, f64[B, 5] damage (falling, whole numbers), bounds u8[B]."""

    cost: I64
    damage: F64
    floors: U8
    most: U8

    def planner(self) -> WidthPlanner:
        return WidthPlanner(self.cost, self.damage, self.floors, self.most)

    def pages(self, widths: U8) -> int:
        return int(self.cost[np.arange(len(widths)), widths].sum())

    def loss(self, widths: U8) -> float:
        return float(self.damage[np.arange(len(widths)), widths].sum())

    def choices(self) -> list[tuple[int, float]]:
        """(pages, damage) of every way to choose widths within the bounds."""
        ranges = [range(low, high + 1) for low, high in zip(self.floors, self.most, strict=True)]
        every = [np.array(widths, np.uint8) for widths in product(*ranges)]
        return [(self.pages(widths), self.loss(widths)) for widths in every]


@st.composite
def some_blocks(draw: st.DrawFn, most_blocks: int = 4) -> Blocks:
    """Few blocks; pages may stay the same from width to width, and so may damage."""
    count = draw(st.integers(1, most_blocks))
    row = st.lists(st.integers(0, 12), min_size=WIDTHS, max_size=WIDTHS)
    pages = draw(st.lists(row, min_size=count, max_size=count))
    drops = draw(st.lists(row, min_size=count, max_size=count))
    most = [draw(st.integers(1, WIDTHS - 1)) for _ in range(count)]
    floors = [draw(st.integers(0, high)) for high in most]
    damage = np.cumsum(np.array(drops, np.float64)[:, ::-1], axis=1)[:, ::-1]
    return Blocks(np.cumsum(pages, axis=1), damage, np.array(floors, np.uint8), np.array(most, np.uint8))


def u8(*widths: int) -> U8:
    return np.array(widths, np.uint8)


def targets_of(planner: WidthPlanner) -> range:
    return range(planner.floor_pages, planner.whole_pages + 2)


def least_with_parts(blocks: Blocks, target: int) -> Fraction:
    """The least damage with widths between two others allowed (the LP relaxation), by its dual.

    max over a price p >= 0 of sum over blocks of min over widths (damage + p * pages) - p * target. It is
    concave and made of lines that meet where two widths of a block cost the same.
    """
    rows = [
        [(int(blocks.cost[i, b]), int(blocks.damage[i, b])) for b in range(low, high + 1)]
        for i, (low, high) in enumerate(zip(blocks.floors, blocks.most, strict=True))
    ]
    prices = {Fraction(0)}
    for row in rows:
        prices |= {Fraction(b[1] - a[1], a[0] - b[0]) for a in row for b in row if a[0] > b[0]}
    return max(
        sum((min(d + price * c for c, d in row) for row in rows), Fraction(0)) - price * target
        for price in prices
    )


@given(some_blocks())
def test_no_choice_with_as_few_pages_is_better(blocks: Blocks) -> None:
    planner, choices = blocks.planner(), blocks.choices()
    for target in targets_of(planner):
        plan = planner.plan(target)
        assert plan.pages == blocks.pages(plan.widths) <= target
        assert plan.damage == blocks.loss(plan.widths)
        assert plan.damage == min(damage for pages, damage in choices if pages <= plan.pages)


@given(some_blocks())
def test_is_the_optimum_of_the_relaxation_with_the_last_step_made_whole(blocks: Blocks) -> None:
    """Between two plans that follow each other the relaxed optimum is a straight line, so rounding it down to
    the next plan is all that is lost."""
    planner = blocks.planner()
    curve = planner.curve()
    for target in range(planner.floor_pages, planner.whole_pages + 1):
        relaxed = float(np.interp(target, curve.pages[::-1], curve.damage[::-1]))
        assert relaxed == pytest.approx(float(least_with_parts(blocks, target)), rel=1e-12, abs=1e-9)
        plan = planner.plan(target)
        assert plan.pages == max(pages for pages in curve.pages if pages <= target)
        assert plan.damage == pytest.approx(curve.damage[list(curve.pages).index(plan.pages)])


@given(some_blocks())
def test_less_room_never_widens_a_block(blocks: Blocks) -> None:
    planner = blocks.planner()
    plans = [planner.plan(target).widths.astype(int) for target in targets_of(planner)]
    for less, more in pairwise(plans):
        assert (less <= more).all()
    assert (plans[-1] == blocks.most).all()


@given(some_blocks(), st.lists(st.integers(0, 60), max_size=8), st.sampled_from([1.0, 1.25, 3.0]))
def test_the_way_to_a_target_leaves_no_trace(blocks: Blocks, ways: list[int], hysteresis: float) -> None:
    """Lowered or raised, in one go or in many: the widths are those from scratch while weights stay."""
    planner = blocks.planner()
    widths = planner.plan(planner.whole_pages).widths
    for way in ways:
        target = planner.floor_pages + way
        widths = planner.plan(target, widths, hysteresis=hysteresis).widths
        assert (widths == planner.plan(target).widths).all()


@given(some_blocks(), st.data())
def test_bounds_hold_whatever_came_before(blocks: Blocks, data: st.DataObject) -> None:
    planner = blocks.planner()
    target = data.draw(st.sampled_from(targets_of(planner)))
    current = np.array([data.draw(st.integers(0, WIDTHS - 1)) for _ in blocks.most], np.uint8)
    plan = planner.plan(target, current)
    assert (blocks.floors <= plan.widths).all() and (plan.widths <= blocks.most).all()
    assert plan.pages == blocks.pages(plan.widths) <= target


@given(some_blocks(), st.data(), st.sampled_from([1.0, 1.25, 2.0, 10.0]))
def test_what_is_kept_is_nearly_as_good(blocks: Blocks, data: st.DataObject, hysteresis: float) -> None:
    """Damage beyond that of whole blocks: at most the factor over the least one, and one whole step."""
    planner = blocks.planner()
    target = data.draw(st.sampled_from(targets_of(planner)))
    current = np.array([data.draw(st.integers(0, WIDTHS - 1)) for _ in blocks.most], np.uint8)
    whole = blocks.loss(blocks.most)
    step = (blocks.damage[np.arange(len(current)), blocks.floors] - blocks.damage[:, -1]).max()
    least = float(least_with_parts(blocks, min(target, planner.whole_pages))) - whole
    got = planner.plan(target, current, hysteresis=hysteresis).damage - whole
    assert got <= hysteresis * (least + step) + 1e-9


@given(some_blocks(), st.data())
def test_planning_again_changes_nothing(blocks: Blocks, data: st.DataObject) -> None:
    planner = blocks.planner()
    target = data.draw(st.sampled_from(targets_of(planner)))
    current = np.array([data.draw(st.integers(0, WIDTHS - 1)) for _ in blocks.most], np.uint8)
    once = planner.plan(target, current)
    assert (planner.plan(target, once.widths).widths == once.widths).all()


@given(some_blocks(), st.data())
def test_small_moves_of_weights_lower_nothing(blocks: Blocks, data: st.DataObject) -> None:
    """Below the factor no block gives up planes for another; pages that were left over may be used."""
    planner = blocks.planner()
    target = data.draw(st.sampled_from(targets_of(planner)))
    widths = planner.plan(target).widths
    planner.reweigh(np.array([data.draw(st.floats(1.0, 1.24)) for _ in blocks.most]))
    assert (planner.plan(target, widths).widths >= widths).all()


def equal_steps(damage: list[list[float]]) -> WidthPlanner:
    """Blocks of one page a width."""
    values = np.array(damage)
    count = len(damage)
    cost = np.tile(np.arange(values.shape[1]), (count, 1))
    most = np.full(count, values.shape[1] - 1, np.uint8)
    return WidthPlanner(cost, values, np.zeros(count, np.uint8), most)


@pytest.mark.parametrize(("weight", "expected"), [(1.24, [0, 1]), (1.25, [0, 1]), (1.26, [1, 0])])
def test_an_exchange_must_pay_by_the_factor(weight: float, expected: list[int]) -> None:
    planner = equal_steps([[1.0, 0.0], [1.0, 0.0]])
    widths = planner.plan(1).widths
    assert widths.tolist() == [0, 1]
    planner.reweigh(np.array([weight, 1.0]))
    assert planner.plan(1, widths).widths.tolist() == expected
    assert planner.plan(1).widths.tolist() == [1, 0]


def test_weights_that_swing_move_nothing() -> None:
    rng = np.random.default_rng(7)
    drops = np.sort(rng.random((200, 9)), axis=1)
    planner = equal_steps(np.cumsum(drops, axis=1)[:, ::-1].tolist())
    widths = planner.plan(900).widths
    from_scratch_differs = 0
    for _ in range(20):
        planner.reweigh(rng.uniform(0.9, 1.1, 200))
        assert (planner.plan(900, widths).widths == widths).all()
        from_scratch_differs += (planner.plan(900).widths != widths).any()
    assert from_scratch_differs == 20


def test_a_width_just_off_its_hull_stays() -> None:
    """Two measurements of the same block: its middle width lies on the hull, then a little above it."""
    on_hull, off_hull = [[2.0, 0.98, 0.0], [2.0, 1.0, 0.0]], [[2.0, 1.02, 0.0], [2.0, 1.0, 0.0]]
    widths = equal_steps(on_hull).plan(2).widths
    assert widths.tolist() == [1, 1]
    assert equal_steps(off_hull).plan(2, widths).widths.tolist() == [1, 1]
    assert equal_steps(off_hull).plan(2).widths.tolist() == [0, 2]


def test_free_pages_are_used_at_once() -> None:
    planner = equal_steps([[9.0, 1.0, 0.0], [5.0, 2.0, 0.0]])
    low = planner.plan(2).widths
    assert low.tolist() == [1, 1]
    assert planner.plan(3, low).widths.tolist() == [1, 2]
    assert planner.plan(4, low).widths.tolist() == [2, 2]


@given(some_blocks(), st.data())
def test_new_weights_are_as_new_damage(blocks: Blocks, data: st.DataObject) -> None:
    weights = np.array([data.draw(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 8.0])) for _ in blocks.most])
    planner = blocks.planner()
    planner.plan(planner.whole_pages)
    planner.reweigh(weights)
    fresh = Blocks(blocks.cost, blocks.damage * weights[:, None], blocks.floors, blocks.most).planner()
    for target in targets_of(planner):
        old, new = planner.plan(target), fresh.plan(target)
        assert old.damage == new.damage and old.pages <= target
    nonzero = weights > 0
    assume(nonzero.all())
    for target in targets_of(planner):
        assert (planner.plan(target).widths == fresh.plan(target).widths).all()


@given(some_blocks(), some_blocks(), st.data())
def test_new_bounds_are_as_a_new_planner(blocks: Blocks, other: Blocks, data: st.DataObject) -> None:
    count = min(len(blocks.most), len(other.most))
    first = Blocks(blocks.cost[:count], blocks.damage[:count], blocks.floors[:count], blocks.most[:count])
    planner = first.planner()
    planner.plan(planner.whole_pages)
    planner.bound(other.floors[:count], other.most[:count])
    fresh = WidthPlanner(first.cost, first.damage, other.floors[:count], other.most[:count])
    for target in targets_of(fresh):
        assert (planner.plan(target).widths == fresh.plan(target).widths).all()


def test_below_the_floors_the_numbers_are_told() -> None:
    cost = np.array([[0, 600, 900], [0, 634, 800]])
    planner = WidthPlanner(cost, np.array([[9.0, 1, 0], [9.0, 1, 0]]), u8(1, 1), u8(2, 2))
    assert planner.floor_pages == 1234 and planner.whole_pages == 1700
    assert planner.plan(1234).widths.tolist() == [1, 1]
    with pytest.raises(ImpossibleTarget) as caught:
        planner.plan(1000, u8(1, 1))
    assert isinstance(caught.value, FitError)
    assert (caught.value.target_pages, caught.value.floor_pages) == (1000, 1234)
    assert str(caught.value) == "the experts need 1,234 pages at their lowest widths, and there are 1,000"
    assert caught.value.hint.startswith("Give them 234 pages more")


def test_a_narrow_width_is_not_taken_to_be_better_than_a_wider_one() -> None:
    plan = equal_steps([[9.0, 1.0, 4.0, 0.0]]).plan(2)
    assert (plan.widths.tolist(), plan.pages, plan.damage) == ([1], 1, 4.0)


def test_ties_go_by_block() -> None:
    planner = equal_steps([[2.0, 1.0, 0.0]] * 3)
    plans = [planner.plan(target).widths.tolist() for target in (5, 4, 3, 2, 1, 0)]
    assert plans == [[1, 2, 2], [0, 2, 2], [0, 1, 2], [0, 0, 2], [0, 0, 1], [0, 0, 0]]


def test_rounding_turns_no_two_steps_around() -> None:
    """Steps of a block that are all alike but for rounding, of unlike pages: made in another order than the
    block's own, they would not give the pages that they are counted for."""
    rng = np.random.default_rng(2)
    cost = np.cumsum(rng.integers(1, 9, (500, 9)), axis=1)
    damage = (cost[:, -1:] - cost) * rng.uniform(0.1, 0.3, (500, 1))
    planner = WidthPlanner(cost, damage, np.zeros(500, np.uint8), np.full(500, 8, np.uint8))
    for target in np.linspace(planner.floor_pages, planner.whole_pages, 40).astype(int).tolist():
        planner.reweigh(rng.uniform(0.1, 3.0, 500))
        for current in (None, rng.integers(0, 9, 500).astype(np.uint8)):
            plan = planner.plan(target, current)
            assert target - 64 < plan.pages <= target


def test_blocks_that_count_nothing_go_first() -> None:
    planner = equal_steps([[2.0, 1.0, 0.0], [9.0, 4.0, 0.0]])
    planner.reweigh(np.array([1.0, 0.0]))
    assert planner.plan(2).widths.tolist() == [2, 0]


def test_equal_input_gives_equal_plans() -> None:
    """Many ties, through a vectorised sort: by block all the same, and every time."""
    rng = np.random.default_rng(1)
    damage = np.sort(rng.integers(0, 4, (3000, 9)).astype(np.float64), axis=1)[:, ::-1]
    cost = np.tile(np.arange(9) * 3, (3000, 1))
    bounds = np.full(3000, 2, np.uint8), np.full(3000, 8, np.uint8)
    plans = [WidthPlanner(cost, damage, *bounds).plan(40_000).widths for _ in range(2)]
    assert (plans[0] == plans[1]).all()
    widths_of: dict[tuple[float, ...], list[int]] = {}
    for row, width in zip(damage.tolist(), plans[0].tolist(), strict=True):
        widths_of.setdefault(tuple(row), []).append(width)
    assert all(widths == sorted(widths) for widths in widths_of.values())
    assert any(len(set(widths)) > 1 for widths in widths_of.values())


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"cost": np.array([[0, 2, 1]])}, "fewer pages"),
        ({"damage": np.array([[1.0, np.nan, 0.0]])}, "finite"),
        ({"damage": np.array([[1.0, 0.0]])}, "must both be"),
        ({"floors": u8(2), "most": u8(1)}, "above the most"),
        ({"most": u8(3)}, "above 2"),
        ({"floors": u8(0, 0)}, "one width a block"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], text: str) -> None:
    whole: dict[str, object] = {
        "cost": np.array([[0, 1, 2]]),
        "damage": np.array([[2.0, 1.0, 0.0]]),
        "floors": u8(0),
        "most": u8(2),
    }
    with pytest.raises(ValueError, match=text):
        WidthPlanner(**(whole | change))  # type: ignore[arg-type]


def test_weights_and_factors_that_do_not_fit_are_refused() -> None:
    planner = equal_steps([[1.0, 0.0]])
    for weights in ([-1.0], [np.inf], [1.0, 1.0]):
        with pytest.raises(ValueError, match="weights"):
            planner.reweigh(np.array(weights))
    with pytest.raises(ValueError, match="below 1"):
        planner.plan(1, u8(0), hysteresis=0.9)
