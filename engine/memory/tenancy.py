"""How the two tenants share the arena: KV first, from free pages, experts' pages or cached prefixes."""

from collections.abc import Callable
from typing import Protocol

from ebbtide.engine.errors import ContextError, FitError
from ebbtide.engine.memory.arena import I32, Arena, Tenant


class Experts(Protocol):
    """The other tenant, as far as KV needs to know it (`Pager`)."""

    @property
    def floor_pages(self) -> int: ...

    def set_capacity(self, pages: int) -> None: ...

    def give_pages(self, count: int) -> int: ...

    on_shortage: Callable[[FitError], None]
    """Called where the arena had no memory for a slab; returns if it is worth another try."""


class NoExperts:
    """A dense model's empty tenant."""

    floor_pages = 0

    def __init__(self) -> None:
        self.on_shortage: Callable[[FitError], None] = lambda error: None

    def set_capacity(self, pages: int) -> None:
        """Nothing to limit."""

    def give_pages(self, count: int) -> int:
        return 0


class Tenancy:
    """Hands pages to the KV cache and sets the experts' capacity to what remains.

    `reserve_pages` are kept from the experts even while KV does not use them. Prefixes that nobody uses go
    last (`retain_prefixes`, so that exact chats keep what they can reuse) or before any expert. Only at safe
    points.
    """

    def __init__(
        self, arena: Arena, experts: Experts, *, reserve_pages: int, retain_prefixes: bool = True
    ) -> None:
        self._arena, self._experts = arena, experts
        self._reserve_pages, self._retain_prefixes = reserve_pages, retain_prefixes
        experts.on_shortage = self._make_do
        self.drop_prefixes: Callable[[int], int] = lambda pages: 0
        """Frees so many KV pages of unused prefixes, or all there are; pages freed. The prefix cache's."""
        self._share()

    @property
    def kv_limit_pages(self) -> int:
        """The most pages that KV can ever own: all but the experts' floor."""
        return self._arena.usable_pages - self._experts.floor_pages

    def experts_share(self, growth: int = 0) -> int:
        """Pages that are left to the experts once KV has `growth` pages more."""
        kv = max(self._arena.owned_pages(Tenant.KV) + growth, self._reserve_pages)
        return self._arena.usable_pages - kv

    def _share(self, growth: int = 0) -> None:
        self._experts.set_capacity(max(self.experts_share(growth), self._experts.floor_pages))

    def take(self, count: int) -> I32:
        """`count` pages for KV, all or none; i32[count].

        Raises ContextError when free pages, experts above their floor and unused prefixes together are too
        few, or the system has no memory for more.
        """
        while True:
            self._find_room(count)
            try:
                return self._arena.allocate(count, Tenant.KV)
            except FitError as error:
                if not self._can_make_do:
                    self._share()
                    raise self._too_small(count) from error
                self._make_do(error)

    @property
    def _can_make_do(self) -> bool:
        """Whether what is mapped holds the experts' floor and the conversation as it is."""
        needed = self._experts.floor_pages + self._arena.owned_pages(Tenant.KV)
        return self._arena.mapped_pages >= needed

    def _make_do(self, error: FitError) -> None:
        """No more slabs can be had: share what is mapped. Raises `error` where that is too little."""
        if not self._can_make_do:
            raise error
        self._arena.give_up_unmapped()
        self._share()

    def _find_room(self, count: int) -> None:
        """See to it that `count` pages are free. Raises ContextError."""
        if not self._retain_prefixes and count > self._arena.free_pages:
            self.drop_prefixes(count - self._arena.free_pages)
        beyond = self._arena.owned_pages(Tenant.KV) + count - self.kv_limit_pages
        if beyond > 0 and self.drop_prefixes(beyond) < beyond:
            raise self._too_small(count)
        self._share(count)
        short = count - self._arena.free_pages
        if short > 0 and self._experts.give_pages(short) < short:
            self._share()
            raise self._too_small(count)

    def give_back(self, pages: I32) -> None:
        """Return KV pages; experts may use them from now on."""
        self._arena.release(pages, Tenant.KV)
        self._share()

    def _too_small(self, count: int) -> ContextError:
        size = self._arena.page_bytes
        used, limit = self._arena.owned_pages(Tenant.KV) * size, self.kv_limit_pages * size
        return ContextError(
            f"The conversation needs {count * size >> 10} KiB more, but its memory is full "
            f"({used >> 10} of {limit >> 10} KiB in use).",
            hint="Give a larger --budget or start a new chat.",
        )
