"""Fast memory: arena, page tables, pager, KV cache, ledger."""
