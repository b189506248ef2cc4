-- The facts of a scrape: targets, scrapes, GPU and engine samples, histograms.
-- Timestamps are UTC without a zone; NULL means "not known", never 0.

CREATE TABLE target (                  -- grain: one scrape target, by its name
  target           VARCHAR PRIMARY KEY,
  kind             VARCHAR NOT NULL,   -- as configured: 'auto', 'dcgm', 'vllm', …
  found_kind       VARCHAR,            -- what the exposition turned out to be
  role             VARCHAR,            -- gpu, engine, router, gateway
  url              VARCHAR NOT NULL,   -- without user name and password
  project          VARCHAR,
  environment      VARCHAR,
  labels           VARCHAR NOT NULL,   -- JSON object
  interval_seconds DOUBLE NOT NULL,
  gpus             VARCHAR[],          -- an engine's GPUs as configured: UUIDs or 'host/index'
  memory_reservation_ratio DOUBLE,     -- as configured: what the engine takes of its GPUs at start
  missing          VARCHAR[],          -- canonical names the kind should yield and this exposition does not
  notes            VARCHAR[],          -- what the reader found odd, in words
  first_seen       TIMESTAMP NOT NULL,
  last_seen        TIMESTAMP NOT NULL, -- last time it stood in the target list
  gone_at          TIMESTAMP           -- set when it left the target list
);

CREATE TABLE scrape (                  -- grain: one try of one target
  ts               TIMESTAMP NOT NULL, -- when the request was sent
  target           VARCHAR NOT NULL,
  ok               BOOLEAN NOT NULL,
  http_status      SMALLINT,
  duration_seconds FLOAT NOT NULL,
  bytes            INTEGER,
  lines            INTEGER,            -- lines that carry a sample
  rejected_lines   INTEGER,            -- lines that could not be read
  unowned_lines    INTEGER,            -- wanted lines that name no GPU or engine
  error            VARCHAR             -- NULL when ok; what, in words
);

CREATE TABLE gpu_sample (              -- grain: GPU or MIG instance, per scrape
  ts                       TIMESTAMP NOT NULL,
  target                   VARCHAR NOT NULL,
  gpu_uuid                 VARCHAR NOT NULL,
  mig_instance             VARCHAR NOT NULL,  -- '' for a whole GPU
  gpu_index                SMALLINT,
  host                     VARCHAR,
  gpu_model                VARCHAR,
  driver_version           VARCHAR,
  utilization_ratio        FLOAT,
  graphics_active_ratio    FLOAT,
  sm_active_ratio          FLOAT,
  tensor_active_ratio      FLOAT,
  dram_active_ratio        FLOAT,
  memory_controller_ratio  FLOAT,
  memory_used_bytes        BIGINT,
  memory_free_bytes        BIGINT,
  memory_reserved_bytes    BIGINT,
  memory_total_bytes       BIGINT,
  memory_used_ratio        DOUBLE,     -- used ÷ (total − reserved)
  temperature_celsius      FLOAT,
  memory_temperature_celsius FLOAT,
  power_watts              FLOAT,
  power_limit_watts        FLOAT,
  energy_joules_total      DOUBLE,
  sm_clock_hertz           BIGINT,
  memory_clock_hertz       BIGINT,
  throttle_reasons         BIGINT,     -- NVML clock-event bit mask
  xid_last                 INTEGER,
  pod                      VARCHAR,    -- several pods on one GPU: joined by ','
  namespace                VARCHAR,
  container                VARCHAR
);

CREATE TABLE engine_sample (           -- grain: target + replica + model, per scrape
  ts                        TIMESTAMP NOT NULL,
  target                    VARCHAR NOT NULL,
  engine                    VARCHAR NOT NULL,
  role                      VARCHAR NOT NULL,
  replica                   VARCHAR NOT NULL,
  model                     VARCHAR,
  requests_running          DOUBLE,
  requests_waiting          DOUBLE,
  requests_swapped          DOUBLE,
  kv_cache_used_ratio       DOUBLE,
  preemptions_total         DOUBLE,
  prompt_tokens_total       DOUBLE,
  generation_tokens_total   DOUBLE,
  finished_stop_total       DOUBLE,
  finished_length_total     DOUBLE,
  finished_abort_total      DOUBLE,
  finished_error_total      DOUBLE,
  http_4xx_total            DOUBLE,
  http_5xx_total            DOUBLE,
  prefix_cache_queries_total DOUBLE,
  prefix_cache_hits_total   DOUBLE,
  memory_reservation_ratio  DOUBLE,
  process_start_time_seconds DOUBLE,
  process_resident_bytes    DOUBLE
);

CREATE TABLE edge_set (                -- grain: one distinct list of bucket edges
  edge_set_id   INTEGER PRIMARY KEY,
  edges_seconds DOUBLE[] NOT NULL  -- ascending, last is +Inf
);

CREATE TABLE engine_histogram (        -- grain: target + replica + model + metric, per scrape
  ts               TIMESTAMP NOT NULL,
  target           VARCHAR NOT NULL,
  replica          VARCHAR NOT NULL,
  model            VARCHAR,
  metric           VARCHAR NOT NULL,   -- ttft, itl, tpot, e2e, queue, prefill, decode
  edge_set_id      INTEGER NOT NULL,
  interval_seconds DOUBLE,             -- time since the scrape the increase starts from; NULL at first sight
  increases        DOUBLE[],           -- of each cumulative bucket, reset-aware; NULL at first sight
  sum_increase_seconds DOUBLE,         -- of sum_seconds, reset-aware; NULL at first sight
  sum_seconds      DOUBLE,             -- raw
  count            DOUBLE              -- raw
);

-- Where the increases of a histogram start from: the raw cumulative buckets at first sight, at a reset
-- (all 0), and once an hour. Base + the increases after it = the last raw buckets, so a restart of
-- infermeter goes on where it was.
CREATE TABLE histogram_base (
  ts          TIMESTAMP NOT NULL,
  target      VARCHAR NOT NULL,
  replica     VARCHAR NOT NULL,
  model       VARCHAR,
  metric      VARCHAR NOT NULL,
  edge_set_id INTEGER NOT NULL,
  buckets     DOUBLE[] NOT NULL
);
