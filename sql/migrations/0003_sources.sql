-- Facts of further sources: GPU processes, hosts, token use of projects, probes, engine-to-GPU placement,
-- and how far a Prometheus was read. Timestamps are UTC without a zone; NULL means "not known", never 0.

ALTER TABLE target ADD COLUMN found_names VARCHAR;  -- JSON object: canonical name -> the name it was read by
ALTER TABLE target ADD COLUMN origin VARCHAR;       -- where the target list has it from: config, discovery, file_sd,
                                                    -- http_sd, dns_sd, prometheus_sd, kubernetes, prometheus

ALTER TABLE engine_sample ADD COLUMN model_memory_bytes DOUBLE;      -- of the loaded model, host and GPU together
ALTER TABLE engine_sample ADD COLUMN model_gpu_memory_bytes DOUBLE;  -- the part of it in GPU memory

CREATE TABLE gpu_process (             -- grain: one process on one GPU or MIG instance, per scrape
  ts                TIMESTAMP NOT NULL,
  target            VARCHAR NOT NULL,
  gpu_uuid          VARCHAR NOT NULL,
  mig_instance      VARCHAR NOT NULL,  -- '' for a whole GPU
  pid               BIGINT NOT NULL,   -- as the driver counts: of the host, not of a container
  name              VARCHAR,
  memory_used_bytes BIGINT,
  kind              VARCHAR            -- compute, graphics
);

CREATE TABLE host_sample (             -- grain: one host, per scrape
  ts                     TIMESTAMP NOT NULL,
  target                 VARCHAR NOT NULL,
  host                   VARCHAR,
  cpu_count              SMALLINT,
  cpu_busy_seconds_total DOUBLE,       -- all CPUs, all modes but idle and iowait
  cpu_seconds_total      DOUBLE,       -- all CPUs, all modes
  load1                  DOUBLE,
  memory_total_bytes     BIGINT,
  memory_available_bytes BIGINT,
  swap_total_bytes       BIGINT,
  swap_free_bytes        BIGINT,
  boot_time_seconds      DOUBLE        -- Unix time
);

-- The same tokens can stand here twice: as a gateway counts them (litellm, otel) and as the engine behind it does
-- (target). Never add sources; sum one of them.
CREATE TABLE project_usage (           -- grain: what one project used on one target and model since the row before
  ts                TIMESTAMP NOT NULL,
  interval_seconds  DOUBLE NOT NULL,   -- time that the row covers, up to ts
  target            VARCHAR NOT NULL,
  project           VARCHAR,
  environment       VARCHAR,
  model             VARCHAR,
  key_alias         VARCHAR,           -- of the gateway's API key, as its owner named it
  source            VARCHAR NOT NULL,  -- target (its configured project), litellm, otel
  prompt_tokens     DOUBLE,            -- cached ones included
  cached_tokens     DOUBLE,
  generation_tokens DOUBLE,
  requests          DOUBLE,
  gateway_spend_usd DOUBLE             -- what the gateway says it cost; an estimate, never the bill
);

CREATE TABLE usage_base (              -- grain: one usage counter of one replica at one project_usage row; the newest
                                       -- holds the raw values that are counted. Source target: without a project,
                                       -- which is the target's
  ts                      TIMESTAMP NOT NULL,
  target                  VARCHAR NOT NULL,
  replica                 VARCHAR NOT NULL,  -- '' for a gateway's own counters
  project                 VARCHAR,
  environment             VARCHAR,
  model                   VARCHAR,
  key_alias               VARCHAR,
  source                  VARCHAR NOT NULL,
  prompt_tokens_total     DOUBLE,
  cached_tokens_total     DOUBLE,
  generation_tokens_total DOUBLE,
  requests_total          DOUBLE,
  spend_usd_total         DOUBLE
);

CREATE TABLE probe (                   -- grain: one request that infermeter itself sent to an endpoint
  ts                TIMESTAMP NOT NULL,
  target            VARCHAR NOT NULL,
  model             VARCHAR,
  ok                BOOLEAN NOT NULL,
  http_status       SMALLINT,
  ttft_seconds      DOUBLE,            -- to the first token (of text or of reasoning)
  tpot_seconds      DOUBLE,            -- (last - first token) / (tokens - 1)
  e2e_seconds       DOUBLE,
  prompt_tokens     DOUBLE,            -- as the endpoint counts them
  generation_tokens DOUBLE,
  cost              DECIMAL(18, 9),    -- from the configured prices; NULL without them
  currency          VARCHAR,
  finish_reason     VARCHAR,
  error             VARCHAR            -- NULL when ok; what, in words
);

CREATE TABLE engine_gpu (              -- grain: one engine replica on one GPU, by one way of knowing
  target       VARCHAR NOT NULL,       -- the engine's
  replica      VARCHAR NOT NULL,       -- '' where the way of knowing does not tell replicas apart
  gpu_uuid     VARCHAR NOT NULL,       -- as in gpu_sample
  mig_instance VARCHAR NOT NULL,
  source       VARCHAR NOT NULL,       -- config, pod, process
  first_seen   TIMESTAMP NOT NULL,
  last_seen    TIMESTAMP NOT NULL      -- the last time both sides still said so
);

CREATE TABLE pull_progress (           -- grain: one target of one Prometheus-compatible source
  source  VARCHAR NOT NULL,            -- name of the target with kind: prometheus
  target  VARCHAR NOT NULL,
  labels  VARCHAR NOT NULL,            -- JSON object: its labels there, which are its identity
  last_ts TIMESTAMP NOT NULL           -- newest scrape that is stored; nothing up to it is read again
);

CREATE TABLE backfill_progress (       -- grain: one span of the past of one Prometheus-compatible source
  source     VARCHAR NOT NULL,
  begin_ts   TIMESTAMP NOT NULL,       -- the span, without its begin; what is newer than end_ts is pulled live
  end_ts     TIMESTAMP NOT NULL,
  done_ts    TIMESTAMP NOT NULL        -- read up to here; end_ts when done
);
