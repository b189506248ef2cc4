-- purpose: a target as the list has it now; what was found out about it stays
-- parameters: target, kind, url, project, environment, labels, interval_seconds, gpus, memory_reservation_ratio,
--             origin, now
INSERT INTO target (target, kind, url, project, environment, labels, interval_seconds, gpus,
                    memory_reservation_ratio, origin, first_seen, last_seen, gone_at)
VALUES ($target, $kind, $url, $project, $environment, $labels, $interval_seconds, $gpus,
        $memory_reservation_ratio, $origin, $now, $now, NULL)
ON CONFLICT (target) DO UPDATE SET
  kind = excluded.kind, url = excluded.url, project = excluded.project, environment = excluded.environment,
  labels = excluded.labels, interval_seconds = excluded.interval_seconds, gpus = excluded.gpus,
  memory_reservation_ratio = excluded.memory_reservation_ratio, origin = excluded.origin, last_seen = excluded.last_seen, gone_at = NULL
