-- purpose: targets as the list has them now; what was found out about them stays
-- parameters: targets (names, each once), kinds, urls, projects, environments, labels, intervals_seconds, gpus,
--             memory_reservation_ratios, origins (lists of that length), now
INSERT INTO target BY NAME
SELECT
  unnest($targets::VARCHAR[]) AS target,
  unnest($kinds::VARCHAR[]) AS kind,
  unnest($urls::VARCHAR[]) AS url,
  unnest($projects::VARCHAR[]) AS project,
  unnest($environments::VARCHAR[]) AS environment,
  unnest($labels::VARCHAR[]) AS labels,
  unnest($intervals_seconds::DOUBLE[]) AS interval_seconds,
  unnest($gpus::VARCHAR[][]) AS gpus,
  unnest($memory_reservation_ratios::DOUBLE[]) AS memory_reservation_ratio,
  unnest($origins::VARCHAR[]) AS origin,
  $now::TIMESTAMP AS first_seen,
  $now::TIMESTAMP AS last_seen
ON CONFLICT (target) DO UPDATE SET
  kind = excluded.kind, url = excluded.url, project = excluded.project, environment = excluded.environment,
  labels = excluded.labels, interval_seconds = excluded.interval_seconds, gpus = excluded.gpus,
  memory_reservation_ratio = excluded.memory_reservation_ratio, origin = excluded.origin, last_seen = excluded.last_seen, gone_at = NULL
