-- Operational memory: what was learned about services, and what happened to it.
-- Everything here is folded out of memory_events, which are read from the event ledgers.
-- Times are `YYYY-MM-DDTHH:MM:SS.mmmZ`; confidence is in whole hundredths.

CREATE TABLE memory_events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    agent TEXT NOT NULL,
    memory_id INTEGER NOT NULL,
    at TEXT NOT NULL,
    kind TEXT NOT NULL,
    actor_kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    session_id INTEGER NOT NULL,
    batch TEXT NOT NULL,
    -- the event or conflict that it is about, and the message and ledger entry that it came from
    target TEXT NOT NULL,
    message TEXT NOT NULL,
    entry TEXT NOT NULL,
    -- what whoever asked for it called it
    key TEXT NOT NULL,
    -- the event, as its ledger has it
    body BLOB NOT NULL
) STRICT;

CREATE INDEX memory_events_by_memory ON memory_events (memory_id, at, id);

CREATE INDEX memory_events_by_session ON memory_events (session_id, kind) WHERE session_id > 0;

CREATE INDEX memory_events_by_target ON memory_events (target) WHERE target <> '';

CREATE INDEX memory_events_by_batch ON memory_events (batch);

CREATE INDEX memory_events_by_entry ON memory_events (agent, entry) WHERE entry <> '';

CREATE UNIQUE INDEX memory_events_by_key ON memory_events (agent, key) WHERE key <> '';

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    cli_session_id TEXT NOT NULL,
    tier INTEGER NOT NULL CHECK (tier BETWEEN 0 AND 3),
    model TEXT NOT NULL,
    trigger TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    is_error INTEGER NOT NULL DEFAULT 0 CHECK (is_error IN (0, 1)),
    exit_code INTEGER,
    cost_usd REAL,
    num_turns INTEGER,
    log_path TEXT NOT NULL,
    summary TEXT NOT NULL DEFAULT '',
    command TEXT NOT NULL,
    parent_session_id INTEGER
) STRICT;

CREATE INDEX sessions_by_cli ON sessions (agent, cli_session_id) WHERE cli_session_id <> '';

CREATE INDEX sessions_by_start ON sessions (started_at);

CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    service TEXT CHECK (service <> ''),
    category TEXT NOT NULL
        CHECK (category IN ('timing', 'dependency', 'behavior', 'remediation', 'maintenance')),
    observation TEXT NOT NULL CHECK (length(observation) BETWEEN 1 AND 2000),
    confidence_c INTEGER NOT NULL DEFAULT 70 CHECK (confidence_c BETWEEN 0 AND 100),
    confidence REAL GENERATED ALWAYS AS (confidence_c / 100.0) VIRTUAL,
    active INTEGER NOT NULL DEFAULT 1 CHECK (active IN (0, 1)),
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    session_id INTEGER REFERENCES sessions DEFERRABLE INITIALLY DEFERRED,
    tier INTEGER NOT NULL DEFAULT 1 CHECK (tier BETWEEN 0 AND 3),
    last_supported_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (
        state IN ('active', 'inactive', 'quarantined', 'retired', 'superseded', 'purged')
    ),
    pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
    contested INTEGER NOT NULL DEFAULT 0 CHECK (contested IN (0, 1)),
    unsupported INTEGER NOT NULL DEFAULT 0 CHECK (unsupported IN (0, 1)),
    version INTEGER NOT NULL,
    valid_from TEXT NOT NULL,
    valid_to TEXT,
    recorded_at TEXT NOT NULL,
    retired_at TEXT,
    superseded_by INTEGER,
    expires_at TEXT,
    norm_hash TEXT NOT NULL,
    origin TEXT NOT NULL,
    reason TEXT NOT NULL,
    flags TEXT NOT NULL,
    -- what confidence at a moment is worked out from: whole weeks paid for, and since when
    weeks_charged INTEGER NOT NULL,
    supported_ms INTEGER NOT NULL,
    -- when it falls below the threshold or expires, if nothing else happens
    fades_at TEXT
) STRICT;

CREATE INDEX idx_memories_service ON memories (service, active);

CREATE INDEX idx_memories_confidence ON memories (confidence_c, active);

CREATE INDEX idx_memories_category ON memories (category);

CREATE INDEX idx_memories_norm_hash ON memories (norm_hash);

CREATE INDEX idx_memories_state ON memories (state, updated_at);

CREATE INDEX idx_memories_subject ON memories (agent, category, service);

CREATE INDEX idx_memories_fades ON memories (fades_at) WHERE fades_at IS NOT NULL;

CREATE TABLE evidence (
    id TEXT PRIMARY KEY,
    memory_id INTEGER NOT NULL,
    session_id INTEGER,
    tier INTEGER NOT NULL,
    message_uuid TEXT NOT NULL,
    raw_line INTEGER,
    raw_offset INTEGER,
    raw_sha256 TEXT NOT NULL,
    ledger_entry_id TEXT NOT NULL,
    quote TEXT NOT NULL CHECK (length(quote) <= 300),
    polarity TEXT NOT NULL CHECK (polarity IN ('supports', 'contradicts')),
    source_class TEXT NOT NULL
        CHECK (source_class IN ('agent', 'subagent', 'tool', 'operator', 'import')),
    at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX evidence_by_memory ON evidence (memory_id, at, id);

CREATE INDEX evidence_by_entry ON evidence (ledger_entry_id) WHERE ledger_entry_id <> '';

CREATE TABLE conflicts (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('contradiction', 'possible_duplicate', 'said_again')),
    memory_a INTEGER NOT NULL,
    memory_b INTEGER,
    signals TEXT NOT NULL,
    sessions TEXT NOT NULL,
    opened_at TEXT NOT NULL,
    is_open INTEGER NOT NULL CHECK (is_open IN (0, 1)),
    resolution TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX conflicts_open ON conflicts (is_open, opened_at);

CREATE TABLE receipts (
    session_id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    at TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    digest TEXT NOT NULL,
    dropped TEXT NOT NULL
) STRICT;

CREATE TABLE injection_items (
    session_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    memory_id INTEGER NOT NULL,
    PRIMARY KEY (session_id, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX injection_items_by_memory ON injection_items (memory_id);

CREATE TABLE memory_rejects (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    at TEXT NOT NULL,
    reason TEXT NOT NULL,
    category TEXT NOT NULL,
    service TEXT NOT NULL,
    observation TEXT NOT NULL,
    hint TEXT NOT NULL,
    corrected_category TEXT NOT NULL,
    corrected_service TEXT NOT NULL,
    session_id INTEGER,
    tier INTEGER NOT NULL,
    source_class TEXT NOT NULL,
    accepted_as INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX memory_rejects_at ON memory_rejects (at);

CREATE VIEW services AS
    SELECT agent, service AS name, COUNT(*) AS memories, SUM(active) AS active,
        MIN(created_at) AS first_seen
    FROM memories WHERE state IN ('active', 'inactive') GROUP BY agent, service;

CREATE VIRTUAL TABLE memories_text USING fts5(
    observation, service, content='memories', content_rowid='id', tokenize='porter unicode61',
    prefix='2 3'
);

INSERT INTO memories_text (memories_text, rank) VALUES ('secure-delete', 1);

CREATE TRIGGER memories_text_added AFTER INSERT ON memories BEGIN
    INSERT INTO memories_text (rowid, observation, service)
    VALUES (new.id, new.observation, new.service); END;

CREATE TRIGGER memories_text_gone AFTER DELETE ON memories BEGIN
    INSERT INTO memories_text (memories_text, rowid, observation, service)
    VALUES ('delete', old.id, old.observation, old.service); END;

CREATE TRIGGER memories_text_changed AFTER UPDATE OF observation, service ON memories BEGIN
    INSERT INTO memories_text (memories_text, rowid, observation, service)
    VALUES ('delete', old.id, old.observation, old.service); INSERT INTO memories_text
    (rowid, observation, service) VALUES (new.id, new.observation, new.service); END;
