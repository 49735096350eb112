"""`ebbtide doctor`: what ebbtide sees of this machine, and what would happen with a file on it."""

import json
from typing import TYPE_CHECKING, Any

import click

from ebbtide.app.commands.show import facts_of
from ebbtide.app.console import tell
from ebbtide.app.context import AppContext
from ebbtide.app.machine import Machine, describe_machine
from ebbtide.app.safe_text import safe_line
from ebbtide.engine.sizes import format_bytes

if TYPE_CHECKING:
    from ebbtide.app.model_facts import ModelFacts


@click.command("doctor", short_help="Explain this machine, and what a file would do on it.")
@click.argument("file", required=False)
@click.option("--json", "as_json", is_flag=True)
@click.pass_obj
def doctor(context: AppContext, file: str | None, as_json: bool) -> None:
    """Explain this machine; with FILE, also what would happen with it."""
    machine = describe_machine(context.paths.models, context.paths.cache)
    facts = facts_of(context, file) if file is not None else None
    if as_json:
        result: dict[str, Any] = {"machine": machine.as_object()}
        if facts is not None:
            result["file"] = facts.as_object()
            result["outlook"] = outlook(machine, facts)
        print(json.dumps(result))
        return
    tell("\n".join(machine_lines(machine)))
    if facts is not None:
        tell(f"\n{safe_line(facts.name)} ({facts.architecture}, {format_bytes(facts.size_bytes)})")
        tell("\n".join(f"  {line}" for line in outlook(machine, facts)))


def machine_lines(machine: Machine) -> list[str]:
    """Two columns; every unknown is said to be one."""
    limit = machine.memory_limit_bytes
    limited = f", limited to {format_bytes(limit)}" if limit is not None else ""
    isa = " ".join(machine.instruction_sets) or "not known on this system"
    free = machine.disk_free_bytes
    rows = {
        "cpu": machine.cpu,
        "instructions": isa,
        "cores": f"{machine.cores}, {machine.threads} threads usable; {machine.default_threads} compute by "
        f"default ({machine.default_threads_found})",
        "memory": f"{format_bytes(machine.memory_bytes)}, available "
        f"{format_bytes(machine.memory_available_bytes)}{limited}; --budget auto takes at most "
        f"{format_bytes(machine.usable_bytes)} now",
        "disk": f"{format_bytes(free)} free where models go"
        if free is not None
        else "keeps no count of its room",
        "direct reads": "work" if machine.direct_io else "do not work here: reads go through the page cache",
        "kernels": kernels_words(machine),
        "compiler": machine.compiler or "none found",
        **card_rows(machine),
        "torch": machine.torch or "not installed (only the reference and cards need it)",
        "llama.cpp": "installed, for comparisons" if machine.baseline else "not installed (extra: baseline)",
    }
    return [f"{name:<14}{safe_line(text)}" for name, text in rows.items()]


def kernels_words(machine: Machine) -> str:
    """Which are chosen here, and what else `--isa` takes."""
    if machine.kernels is None:
        return f"{machine.isa}: the slow ones in torch, as none are compiled"
    if machine.isa == "reference":
        return f"{machine.isa}: the slow ones in torch, as {machine.kernels} cannot be loaded"
    others = f" (--isa also takes {', '.join(machine.other_isas)})" if machine.other_isas else ""
    return f"{machine.isa}{others}, in {machine.kernels}"


def card_rows(machine: Machine) -> dict[str, str]:
    """A row for the driver and one for each card, with the reason why one is not used."""
    if machine.cuda is None:
        module = f"driver {machine.gpu_driver}, which shows no card" if machine.gpu_driver else ""
        return {"gpu": machine.cards_problem or module or "none with a driver"}
    version = f"{machine.gpu_driver}, " if machine.gpu_driver else ""
    rows = {"gpu driver": f"{version}runs CUDA {machine.cuda}"}
    for card in machine.cards:
        free = "free memory unknown" if card.free_bytes is None else f"{format_bytes(card.free_bytes)} free"
        kind = "shared with the processor, " if card.integrated else ""
        facts = f"{card.name}, {format_bytes(card.memory_bytes)} ({kind}{free}), capability {card.capability}"
        rows[f"cuda:{card.index}"] = f"{facts}, {card.uuid}" + (
            f"; not used: {card.problem}" if card.problem else ""
        )
    return rows or {"gpu": "none"}


def outlook(machine: Machine, facts: "ModelFacts") -> list[str]:
    """Sentences about loading this file on this machine."""
    usable = machine.usable_bytes
    lines = [f"About {format_bytes(usable)} can be used now; the file has {format_bytes(facts.size_bytes)}."]
    if facts.size_bytes <= usable:
        lines.append("It fits whole: nothing has to be read again while it answers.")
    elif not facts.experts:
        lines.append("It does not fit, and a dense model cannot be paged: use a smaller quantisation.")
    elif facts.dense_bytes > usable:
        lines.append("Not even the part that every token needs fits: use a smaller quantisation.")
    else:
        share = (usable - facts.dense_bytes) / max(facts.expert_bytes, 1)
        lines.append(f"About {share:.0%} of the experts fit; the others are read from disk when needed.")
        lines += _pack_lines(machine, facts)
    for kind, error_db in facts.float_error_db.items():
        if error_db is not None:
            lines.append(f"Its {kind} weights become 8-plane codes, {error_db:.1f} dB above their error.")
    return lines


def _pack_lines(machine: Machine, facts: "ModelFacts") -> list[str]:
    if facts.packed:
        return []
    free = machine.disk_free_bytes
    if free is not None and facts.size_bytes > free:
        return ["A pack is needed for that, and the disk has no room for it."]
    return [f"A pack is needed for that: `ebbtide pack` makes one, about {format_bytes(facts.size_bytes)}."]
