-- Judging and telling: what is remembered per check, incidents, findings, messages and channels.
-- Timestamps are UTC without a zone; NULL means "not known", never 0. Ratios are 0 to 1.

CREATE TABLE judgement (               -- grain: one check of one subject that is not plainly well; replaced as it changes
  judgement_key    VARCHAR NOT NULL,   -- name|check_name|subject; no key constraint: rows are replaced within a transaction
  name             VARCHAR NOT NULL,   -- the finding: vram_high, …
  check_name       VARCHAR NOT NULL,   -- occupancy, headroom, growth, over_reservation
  subject          VARCHAR NOT NULL,   -- gpu:<uuid> or gpu:<uuid>/<mig instance>
  state            VARCHAR NOT NULL,   -- inactive, pending, firing, resolved
  reason           VARCHAR NOT NULL,   -- the named reason, alerts/observation.py Reason
  reason_text      VARCHAR NOT NULL,   -- the reason as a sentence, as it was at the last change
  incident_id      VARCHAR,            -- the incident of a pending or firing state, or the one just resolved
  pending_since    TIMESTAMP,          -- sample time from which the hold time counts
  fired_at         TIMESTAMP,
  resolved_at      TIMESTAMP,
  last_known_at    TIMESTAMP,          -- time of the last sample with a value, while pending or firing
  no_data_since    TIMESTAMP,
  peak_value       DOUBLE,             -- the worst value since pending_since
  changed_at       TIMESTAMP NOT NULL, -- when state or reason last changed
  labels           VARCHAR NOT NULL    -- JSON object
);

CREATE TABLE incident (                -- grain: one incident, from pending to resolved; one that never fired is removed
  incident_id      VARCHAR PRIMARY KEY,
  name             VARCHAR NOT NULL,
  check_name       VARCHAR NOT NULL,
  subject          VARCHAR NOT NULL,
  severity         VARCHAR NOT NULL,   -- warning, critical
  state            VARCHAR NOT NULL,   -- pending, firing, resolved
  reason           VARCHAR NOT NULL,
  reason_text      VARCHAR NOT NULL,   -- the reason as a sentence
  title            VARCHAR NOT NULL,   -- a few words: "VRAM high"
  summary          VARCHAR NOT NULL,   -- one sentence that reads alone
  value            DOUBLE,             -- at last_seen_at
  peak_value       DOUBLE,             -- the worst since started_at
  threshold        DOUBLE,             -- where it fires
  unit             VARCHAR NOT NULL,   -- ratio, bytes
  started_at       TIMESTAMP NOT NULL, -- first sample beyond the threshold
  fired_at         TIMESTAMP,
  resolved_at      TIMESTAMP,
  last_seen_at     TIMESTAMP,          -- time of the last sample with a value
  no_data_since    TIMESTAMP,
  labels           VARCHAR NOT NULL,   -- JSON object: host, gpu_index, gpu_model, gpu_uuid, mig_instance, project, …
  evidence         VARCHAR NOT NULL    -- JSON object: the numbers and the series that prove it
);

CREATE TABLE incident_change (         -- grain: one change of an incident's state
  ts               TIMESTAMP NOT NULL,
  incident_id      VARCHAR NOT NULL,
  state            VARCHAR NOT NULL,   -- pending, firing, resolved; inactive: it ended before it fired
  reason           VARCHAR NOT NULL,
  reason_text      VARCHAR NOT NULL,
  value            DOUBLE
);

CREATE TABLE finding (                 -- grain: one change of state or reason of one check of one subject
  ts               TIMESTAMP NOT NULL,
  name             VARCHAR NOT NULL,
  check_name       VARCHAR NOT NULL,
  subject          VARCHAR NOT NULL,
  severity         VARCHAR NOT NULL,   -- info (stated, never told), warning, critical
  state            VARCHAR NOT NULL,
  reason           VARCHAR NOT NULL,
  reason_text      VARCHAR NOT NULL,
  evidence         VARCHAR NOT NULL,   -- JSON object
  labels           VARCHAR NOT NULL    -- JSON object
);

CREATE TABLE outbox (                  -- grain: one event of one incident for one channel
  message_id       VARCHAR PRIMARY KEY,
  incident_id      VARCHAR NOT NULL,
  channel          VARCHAR NOT NULL,
  event            VARCHAR NOT NULL,   -- fired, resolved
  created_at       TIMESTAMP NOT NULL,
  payload          VARCHAR NOT NULL,   -- JSON object: the incident as it was, and its links
  state            VARCHAR NOT NULL,   -- waiting, sending, sent, failed
  attempts         INTEGER NOT NULL,
  next_attempt_at  TIMESTAMP NOT NULL,
  claimed_at       TIMESTAMP,
  claimed_by       VARCHAR,            -- the run of infermeter that is sending it
  sent_at          TIMESTAMP,
  last_error       VARCHAR             -- in words, without the channel's address
);

CREATE TABLE channel (                 -- grain: one configured channel, by its name
  channel          VARCHAR PRIMARY KEY,
  kind             VARCHAR NOT NULL,
  state            VARCHAR NOT NULL,   -- ok, retrying, failed (refused: tried again slowly)
  last_error       VARCHAR,            -- in words, without the channel's address; NULL after a message got through
  last_error_at    TIMESTAMP,
  last_sent_at     TIMESTAMP,
  failures         INTEGER NOT NULL,   -- tries in a row that did not get through
  next_send_at     TIMESTAMP NOT NULL, -- not before: spacing, Retry-After, back-off
  run              VARCHAR NOT NULL    -- the run of infermeter that last looked after it
);

CREATE TABLE vram_baseline (           -- grain: GPU or MIG instance with a preallocating engine; replaced as it changes
  gpu_uuid         VARCHAR NOT NULL,
  mig_instance     VARCHAR NOT NULL,
  engines          VARCHAR NOT NULL,   -- JSON object: engine target → process start, unix seconds, or null
  since            TIMESTAMP NOT NULL, -- engine start, or first sight: warm-up counts from here
  baseline_bytes   BIGINT,             -- used memory on the plateau after warm-up; NULL until known
  learned_at       TIMESTAMP
);
