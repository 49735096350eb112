CREATE TABLE chats (
    id TEXT PRIMARY KEY NOT NULL,
    title TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    model TEXT NOT NULL,
    preset TEXT NOT NULL,
    system TEXT NOT NULL,
    head_id INTEGER
);
CREATE INDEX chats_by_update ON chats (updated_ms, id);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    chat_id TEXT NOT NULL REFERENCES chats (id),
    parent_id INTEGER CHECK (parent_id < id),
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    thinking TEXT NOT NULL,
    state TEXT NOT NULL,
    finish_reason TEXT NOT NULL,
    model TEXT NOT NULL,
    usage TEXT,
    timings TEXT,
    left_out INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    indexed INTEGER NOT NULL DEFAULT 0,
    UNIQUE (chat_id, id),
    FOREIGN KEY (chat_id, parent_id) REFERENCES messages (chat_id, id)
);
CREATE INDEX messages_by_parent ON messages (chat_id, parent_id, id);
CREATE INDEX messages_of_user ON messages (id) WHERE role = 'user';
CREATE INDEX messages_not_indexed ON messages (id) WHERE indexed = 0;
CREATE TABLE drafts (
    chat_id TEXT PRIMARY KEY NOT NULL,
    text TEXT NOT NULL,
    updated_ms INTEGER NOT NULL
);
CREATE TABLE marks (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL);
INSERT INTO chats VALUES ('bcdfgh', 'Old chat', 1000, 2000, 'tiny', '', 'Be brief.', 12);
INSERT INTO messages VALUES (
    11, 'bcdfgh', NULL, 'user', 'Why?', '', 'complete', '', '', NULL, NULL, 0, 1000, 1000, 0
);
INSERT INTO messages VALUES (
    12, 'bcdfgh', 11, 'assistant', 'Becau', 'Hm', 'partial', '', 'tiny', NULL, NULL, 0, 1500, 2000, 0
);
INSERT INTO drafts VALUES ('', 'not sent', 2000);
PRAGMA user_version = 1;
