"""Keeps the widths of a loaded model where its memory wants them: KV comes first, experts have the rest.

    before each step   what KV takes soon counts as taken; widths that do not fit beside it fall at once
    at rest            after a `Clear`, or what else gave memory back, they rise again, read by read
    now and then       the same pages, spread anew over the experts that are asked for now

Plans are made on a thread of their own, from a copy of what was routed, and committed here, at a safe point.
Room for KV is planned `EARLY_TOKENS` before it is needed, and widths that are spread anew are committed so
many tokens after they were asked for: by then the plan is ready, as a rule, and which token sees which widths
follows from the conversation, not from how fast a thread was. A step waits for a plan only where that rule
fails, and where KV needs room at once that nobody saw coming (a long question does): then it is planned while
the step waits. A plan is dropped, and changes nothing, when widths have changed since, when its pages are not
there any more, when memory was given back, and with the model.

Nothing flaps: what falls makes room for more tokens than were missing, and rises only where there is room for
many more. A rise that KV gets in the way of is cancelled by the pager and leaves widths as they are.
"""

import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from ebbtide.engine import decisions
from ebbtide.engine.errors import EbbtideError
from ebbtide.engine.memory.arena import Tenant
from ebbtide.engine.memory.change import ChangeState
from ebbtide.engine.memory.fast_memory import FastMemory
from ebbtide.engine.messages import Bound, Decision
from ebbtide.engine.precision.bounds import Bounds
from ebbtide.engine.precision.bounds_by_hand import bounded, check_room
from ebbtide.engine.precision.costs import Costs
from ebbtide.engine.precision.hull import U8
from ebbtide.engine.precision.planning import Planning
from ebbtide.engine.precision.routes import Routes
from ebbtide.engine.precision.steward import Proposal, Question, Steward

NEAR_TOKENS = 16
"""KV that so many tokens will need counts as taken: there is time to lower before it is asked for."""
EARLY_TOKENS = 16
"""So many tokens before it is needed, a plan is asked for. Chosen by hand: 16 tokens take longer than a plan
of 12,288 blocks, and are too few for routing to have changed much."""
AHEAD_TOKENS = 64
"""What falls makes room for so many tokens more, so that not every block of KV moves widths."""
TURN_TOKENS = 256
"""Widths rise only where a short turn has room afterwards: else its first tokens would undo it."""
LEAST_RISE = 1 / 64
"""Of all pages of whole experts: a smaller gain is not worth its reads, or a word."""
RECONSIDER_TOKENS = 256
"""How often what was routed to may spread widths anew."""
LEAST_GAIN = 0.05
"""Of the predicted damage: a smaller gain is not worth its reads."""

NAP_S = 0.002
"""What `rest` waits for reads and plans: a command should not wait longer."""
REPORT = "Run with --debug and report it; answers go on at these widths."


class WidthKeeper:
    """Changes widths of one loaded model at safe points of the step thread, and tells of it.

    `told` is asked whether it is time to tell again (`RateLimit.ready`): what happens in between is one
    sentence. Nothing is raised where widths cannot change: that is told, and the old ones stay.
    """

    def __init__(
        self,
        fast: FastMemory,
        steward: Steward,
        routes: Routes,
        costs: Costs,
        emit: Callable[[Decision], None],
        may_tell: Callable[[], bool],
    ) -> None:
        assert fast.table is not None and fast.pager is not None
        self._fast, self._table, self._pager = fast, fast.table, fast.pager
        self._steward, self._routes, self._costs = steward, routes, costs
        self._planning = Planning(steward.plan)
        self._is_stopped = False
        self._emit, self._may_tell = emit, may_tell
        self._is_due = False
        self.bounds = Bounds.none(steward.most)
        """A person's, of this model; every plan keeps to them."""
        self._owes_bounds = self._is_by_hand = False
        self._target = -1
        """Pages that were planned for last because they had to be."""
        self._seen_tokens = 0
        self._is_first = True
        self._remember()

    # --- safe points --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """After the load, before anything is read: all experts are to fit."""
        share = self._fast.tenancy.experts_share(self._turn_pages)
        self._lower_to(share, share)

    def begun(self) -> None:
        """Tell of the first widths; what comes later is the conversation's."""
        self.tell(last=True)
        self._is_first = False

    def look(self, length: int, coming: int) -> None:
        """Before a step that adds `coming` tokens to a sequence of `length`."""
        self._advance()
        share = self._fast.tenancy.experts_share
        near, ahead = coming + NEAR_TOKENS, coming + AHEAD_TOKENS
        if self._pages > (room := share(self._kv_pages(length, near))):
            self._lower_to(share(self._kv_pages(length, ahead)), room)
        elif self._pages > share(self._kv_pages(length, near + EARLY_TOKENS)):
            self._ask_to_lower(share(self._kv_pages(length, ahead + EARLY_TOKENS)))
        else:
            self._follow_routes(length, ahead)
        self.tell()

    def wake(self) -> None:
        """Memory may have been given back: look at it when there is time."""
        self._planning.drop()
        self._is_due, self._is_stopped = True, False

    def bound(self, command: Bound) -> Decision:
        """Take a person's bound; a plan that was asked for without it is dropped.

        Raises what `bounded` and `check_room` raise; then nothing is changed.
        """
        new = bounded(self.bounds, command, self._steward, self._table.committed)
        self._routes.add_up()
        check_room(new, self.bounds, self._steward, self._routes.routing.mass(), self._fast.ledger.plan)
        self.bounds, self._owes_bounds, self._target = new, True, -1
        self.wake()
        gate_up, down = new.least[command.layer, :, command.expert].tolist()
        return decisions.bounded(command.layer, command.expert, (gate_up, down), held=command.held)

    @property
    def has_work(self) -> bool:
        """Whether `rest` would do something."""
        is_busy = self._is_due or self._planning.asked is not None or self._pager.change is not None
        return is_busy and not self._is_stopped

    def rest(self) -> None:
        """Go on with a rise while nobody asks; waits for a plan or for reads a moment at most.

        Whatever goes wrong is told in one sentence: widths stay as they are, and nothing is tried again until
        the next `wake`.
        """
        try:
            self._rest()
        except BrokenPipeError:
            raise  # nobody hears anything any more
        except Exception as error:
            self._give_up(error)

    def close(self) -> None:
        """The model goes: so do its plans."""
        self._planning.close()

    def _rest(self) -> None:
        if (change := self._pager.change) is not None:
            if not change.is_ready:
                time.sleep(NAP_S)
        elif self._is_due:
            self._is_due = False
            self._ask(self._rising(self._fast.tenancy.experts_share(self._turn_pages)), lowers=False)
        elif self._planning.wait(NAP_S):
            self._spread(self._fast.tenancy.experts_share(self._kv_pages(0, AHEAD_TOKENS)))
        self._advance()
        self.tell(last=not self.has_work)

    def _give_up(self, error: Exception) -> None:
        self._is_due, self._is_stopped = False, True
        self._planning.drop()
        with suppress(Exception):  # the first error is the one to tell of
            if (change := self._pager.change) is not None:
                change.cancel()
        self._tell_error(error)

    # --- deciding -----------------------------------------------------------------------------------------

    def _kv_pages(self, length: int, tokens: int) -> int:
        """Pages that KV takes for `tokens` more, and for a block that has to be copied first."""
        pool = self._fast.pool
        size = pool.tokens_per_block
        return pool.layers * (-(-(length + tokens) // size) - -(-length // size) + 1)

    def _remember(self) -> None:
        """What is compared with at the next telling."""
        self._before = self._table.committed.copy()
        self._kv_before = self._kv_bytes()
        self._pages = self._steward.pages(self._table.reach)

    def _kv_bytes(self) -> int:
        arena = self._fast.arena
        return arena.owned_pages(Tenant.KV) * arena.page_bytes

    def _lower_to(self, target: int, room: int) -> None:
        """Widths for at most `room` pages, as far as floors let them fall: those of a plan that is there, or
        of one for `target` that is made while everybody waits.
        """
        asked = self._planning.asked
        is_there = asked is not None and asked.lowers and asked.question.target_pages <= room
        if asked is not None and is_there and self._lowered():
            self._target = asked.question.target_pages
            return
        if target == self._target:
            return  # at the floors: all that can be had has been had
        self._target = target
        if self._steward.pages(self._table.committed) > target:
            self._ask(target, lowers=True)
            self._lowered()
        elif self._pager.change is not None:
            self._set(self._table.committed.copy())  # a rise that was begun would not fit

    def _lowered(self) -> bool:
        """Commit what is lower in the plan that was asked for, if it still holds."""
        plan = self._take()
        if plan is not None:
            self._set(np.minimum(plan.widths, self._table.committed))
        return plan is not None

    def _ask_to_lower(self, target: int) -> None:
        """Have a plan made for room that KV needs soon."""
        asked = self._planning.asked
        if target == self._target or (asked is not None and asked.lowers):
            return
        if self._steward.pages(self._table.committed) > target:
            self._ask(target, lowers=True)

    def _follow_routes(self, length: int, ahead: int) -> None:
        """Have widths spread anew where that is due, and commit them when their time has come."""
        share, asked = self._fast.tenancy.experts_share, self._planning.asked
        if asked is not None and asked.lowers:
            self._planning.drop()  # the room is there by other means
        elif asked is None and (
            self._owes_bounds or self._routes.tokens - self._seen_tokens >= RECONSIDER_TOKENS
        ):
            self._ask(self._rising(share(self._kv_pages(length, ahead + TURN_TOKENS))), lowers=False)
        elif asked is not None and self._routes.tokens - asked.tokens >= EARLY_TOKENS:
            self._spread(share(self._kv_pages(length, ahead)))

    def _rising(self, target: int) -> int:
        """`target`, or what is taken now, as long as a turn of less would do."""
        return max(target, min(self._pages, target + self._turn_pages))

    def _spread(self, room: int) -> None:
        """Widths that rise into free pages, or are spread anew, where that is worth it."""
        plan = self._take()
        if plan is None or self._pager.change is not None:
            return
        # Bounds are kept where experts do not fit at their floors, too: then some more of them are absent.
        least = plan.least_pages if self._owes_bounds else 0
        if plan.pages > max(room, self._pages, least):
            return
        added = plan.pages - self._pages
        is_whole = bool((plan.widths == self.bounds.most).all())
        rises = added >= LEAST_RISE * self._steward.whole_pages or (is_whole and added > 0)
        gains = plan.damage_now - plan.damage > LEAST_GAIN * plan.damage_now
        if rises or gains or self._owes_bounds:
            self._is_by_hand, self._owes_bounds = self._owes_bounds, False
            self._target = -1
            self._set(plan.widths)

    @property
    def _turn_pages(self) -> int:
        return self._kv_pages(0, TURN_TOKENS)

    def _ask(self, target: int, *, lowers: bool) -> None:
        self._routes.add_up()
        self._seen_tokens = self._routes.tokens
        question = Question(self._routes.routing.mass(), self._table.committed.copy(), target, self.bounds)
        self._planning.ask(question, self._routes.tokens, lowers=lowers)

    def _take(self) -> Proposal | None:
        """The plan that was asked for, if it still holds. What went wrong is told: then there is none."""
        try:
            return self._planning.take(self._table.committed)
        except Exception as error:
            self._tell_error(error)
            return None

    # --- doing --------------------------------------------------------------------------------------------

    def _set(self, widths: U8) -> None:
        try:
            self._pager.set_widths(widths)
        except EbbtideError as error:
            self._tell_error(error)
        self._advance()
        self._pages = self._steward.pages(self._table.reach)

    def _tell_error(self, error: Exception) -> None:
        if isinstance(error, EbbtideError):
            self._emit(decisions.widths_kept(str(error), error.hint))
        else:
            reason = f"choosing widths failed ({type(error).__name__}: {error})"
            self._emit(decisions.widths_kept(reason, REPORT))

    def _advance(self) -> None:
        """Go on with what is under way; a failure is told, a cancel leaves all as it was."""
        change = self._pager.advance()
        if change is None:
            return
        self._pages = self._steward.pages(self._table.reach)
        if change.state is ChangeState.FAILED and change.error is not None:
            self._emit(decisions.widths_kept(str(change.error), change.error.hint))

    # --- telling ------------------------------------------------------------------------------------------

    def tell(self, *, last: bool = False) -> None:
        """One sentence for all that was committed since the last one, if it is time; `last`: in any case."""
        if np.array_equal(self._before, self._table.committed) or not (self._may_tell() or last):
            return
        now = self._table.committed
        changed = int((now != self._before).any(axis=1).sum())
        lowered = int((now < self._before).any(axis=1).sum())
        bits = self._costs.average_bits(self._before), self._costs.average_bits(now)
        kv = None if self._is_first else self._kv_bytes() - self._kv_before
        experts = now.shape[0] * now.shape[2]
        told = decisions.widths_changed((changed, lowered), experts, bits, kv, by_hand=self._is_by_hand)
        self._emit(told)
        self._is_by_hand = False
        self._remember()
