-- A question looks at what was said with weight: it is found in its order, without the rest.

DROP INDEX artefacts_by_salience;

CREATE INDEX artefacts_weighty ON artefacts (
    agent, kind, salience DESC, at DESC, stretch_id, position
) WHERE salience >= 60;
