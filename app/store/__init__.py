"""The chat store: chats, messages as trees, drafts, history and search, in one SQLite file.

    store = open_or_memory(paths.chats)      # never fails; `open_store` raises instead
    store.notice, store.trouble              # something to tell the person, at the start and after changes

    chat = store.create_chat(model=..., preset=..., system=...)
    question = store.add_message(chat.id, chat.head_id, "user", text)       # the first one names the chat
    answer = store.add_message(chat.id, question.id, "assistant", state="partial", model=...,
                               writer=this_process())
    store.append_partial(answer.id, new_text, new_thinking)                 # about four times a second
    store.finish_message(answer.id, content=finished.text, finish_reason=finished.finish_reason,
                         usage=finished.usage, timings=finished.timings)    # state="stopped" or "failed" too

    resume      chat = store.last_open_chat(); store.path(chat.head_id); store.take_draft(chat.id, window)
                `whole_tree(chat.id)` has all branches, parents before children
    open        store.set_open_chat(chat.id), for `last_open_chat`; `NEW_CHAT` while a chat has not begun
    edit        store.add_message(chat.id, old.parent_id, "user", new_text): a sibling of the old question
    regenerate  store.add_message(chat.id, old.parent_id, "assistant", state="partial"): a sibling too
    take back   store.withdraw_message(question.id), while nothing follows it
    leave out   store.set_left_out(ids, True): kept from the model, see `Message.left_out`
    switch      leaf = store.leaf_below(sibling_id); store.set_active(chat.id, leaf); store.path(leaf)
                `branches(leaf)` has, for every message of a path with alternatives, their ids: "2 of 3"
    fork        store.fork(message_id): a new chat with a copy of the path, "Title (2)"
    drafts      store.save_draft(chat.id or NEW_CHAT, text), load_draft, take_draft; empty: no draft
    queue       store.save_queue(chat.id or NEW_CHAT, questions), load_queue: what waits for an answer to end
    history     store.history(limit, containing): what was asked in all chats, for Up and Ctrl+R
    search      store.search(query): hits with snippets; show one with leaf_below(hit.message_id)
    lists       list_chats, get_chat, rename_chat, set_chat_settings, delete_chat, siblings, stats
    files       export_markdown(store, chat.id), export_json, import_json(store, text), file_name(chat, "md")

What holds:

- A call that returned has been saved: it survives SIGKILL. A power cut may take the last moments, no more.
- While the disk is full, locked or not writable, nothing is raised: `trouble` is set, and changes are made in
  memory and saved as soon as it works again (each change tries, at most every few seconds; `retry()` tries at
  once). Only a store above 256 MiB is not taken to memory; then changes raise StoreError.
- Several apps may use one store, and one chat. Messages are only added, so each app keeps its own branch; the
  head that is saved is that of whoever added last. A chat that another app removed raises UnknownChat.
- A message that is `partial` and not among `being_written(chat.id)` was cut off by the end of its app.
- Texts are kept as they are, control characters included: show them through `safe_text`. Only lone surrogates
  become U+FFFD. Titles and snippets are one line without control characters.
- Records are immutable copies. All errors are StoreErrors, with a hint for people.
"""

from ebbtide.app.store.errors import (
    BadImport,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreTooNew,
    StoreUnsaved,
    UnknownChat,
    UnknownMessage,
)
from ebbtide.app.store.markdown import export_markdown
from ebbtide.app.store.records import Chat, Hit, Message, Role, Snippet, State, Stats
from ebbtide.app.store.store import (
    NEW_CHAT,
    ChatStore,
    memory_store,
    open_or_memory,
    open_store,
    read_store,
)
from ebbtide.app.store.titles import file_name, title_of
from ebbtide.app.store.transfer import export_json, import_json
from ebbtide.app.store.writers import this_process

__all__ = [
    "NEW_CHAT",
    "BadImport",
    "Chat",
    "ChatStore",
    "Hit",
    "Message",
    "Role",
    "Snippet",
    "State",
    "Stats",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreTooNew",
    "StoreUnsaved",
    "UnknownChat",
    "UnknownMessage",
    "export_json",
    "export_markdown",
    "file_name",
    "import_json",
    "memory_store",
    "open_or_memory",
    "open_store",
    "read_store",
    "this_process",
    "title_of",
]
