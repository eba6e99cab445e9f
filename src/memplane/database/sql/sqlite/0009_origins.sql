-- Where the words of a turn come from, where they are not the user's or the agent's own: a line
-- for each part of the reply that repeats a source. Empty is nothing; NULL is not derived yet.
ALTER TABLE episodes ADD COLUMN origins TEXT;

-- The sources of what was derived, a line each.
ALTER TABLE artefacts ADD COLUMN origins TEXT NOT NULL DEFAULT '';

CREATE INDEX episodes_unattributed ON episodes (agent, id) WHERE origins IS NULL;

CREATE INDEX episodes_repeating ON episodes (scope, at, id) WHERE origins <> '';

-- The ledgers are read again, and only origins are taken from what is known.
DELETE FROM followed;
