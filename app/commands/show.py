"""`ebbtide show`: what a model file is."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ebbtide.app.console import ProgressPrinter, note, tell
from ebbtide.app.context import AppContext
from ebbtide.app.file_kinds import refuse_other_kinds
from ebbtide.app.models import resolve
from ebbtide.app.safe_text import safe_line
from ebbtide.engine.errors import ModelError
from ebbtide.engine.sizes import format_bytes

if TYPE_CHECKING:
    from ebbtide.app.model_facts import ModelFacts


@click.command("show", short_help="Describe a model file.")
@click.argument("model")
@click.option("--json", "as_json", is_flag=True)
@click.option("--verify", is_flag=True, help="Read a whole pack and compare it with its checksums.")
@click.pass_obj
def show(context: AppContext, model: str, as_json: bool, verify: bool) -> None:
    """Describe a model: architecture, sizes, types, and what turning float weights into planes costs."""
    facts = facts_of(context, model)
    if as_json:
        print(json.dumps(facts.as_object()))
    else:
        tell(as_text(facts))
    if verify:
        _verify(Path(facts.path))


def _verify(path: Path) -> None:
    """Say that the pack is whole. Raises ModelError where it is not."""
    from ebbtide.engine.weights.pack_verify import verify_pack  # numpy

    with ProgressPrinter() as progress:
        nbytes = verify_pack(path, lambda done, total: progress.update("verifying", done, total))
    note(f"All {format_bytes(nbytes)} of weights are as they were written.")


def facts_of(context: AppContext, model: str) -> "ModelFacts":
    """Find the file and read it. Raises ModelError."""
    from ebbtide.app.model_facts import read_facts  # numpy and the GGUF reader

    path = resolve(model, context.paths)
    if not path.exists():
        raise ModelError(f"The model {model!r} is not there yet", hint="`ebbtide pull starter` fetches it.")
    refuse_other_kinds(path)
    return read_facts(path)


def _kind(facts: "ModelFacts") -> str:
    if facts.any_precision:
        return ", a pack with any-precision codes in place of the experts' own types"
    return ", a pack" if facts.packed else ""


def as_text(facts: "ModelFacts") -> str:
    """Two columns for people."""
    rows = [
        ("name", facts.name),
        ("file", f"{facts.path} ({format_bytes(facts.size_bytes)}{_kind(facts)})"),
        ("architecture", facts.architecture),
        ("parameters", f"{facts.parameters / 1e6:,.0f} M, experts {facts.expert_parameters / 1e6:,.0f} M"),
        (
            "experts",
            f"{facts.experts} per layer, {facts.top_k} at once" if facts.experts else "none (dense)",
        ),
        (
            "layers",
            f"{facts.layers} of width {facts.d_model}, {facts.heads} heads, {facts.kv_heads} for KV",
        ),
        ("context", f"{facts.context:,} tokens, {format_bytes(facts.kv_bytes_per_token)} of KV each"),
        ("vocabulary", f"{facts.vocabulary:,}"),
        ("bytes", f"dense {format_bytes(facts.dense_bytes)}, experts {format_bytes(facts.expert_bytes)}"),
        ("types", ", ".join(f"{kind} {format_bytes(n)}" for kind, n in sorted(facts.type_bytes.items()))),
    ]
    for kind, error_db in facts.float_error_db.items():
        rows.append((f"{kind} planes", "nothing lost" if error_db is None else f"{error_db:.1f} dB at least"))
    return "\n".join(f"{name:<14}{safe_line(value)}" for name, value in rows)
