-- purpose: the last raw buckets of every histogram: the newest base plus the increases after it
-- grain: target + replica + model + metric
WITH base AS (
  SELECT * FROM histogram_base
  QUALIFY row_number() OVER (PARTITION BY target, replica, model, metric ORDER BY ts DESC) = 1
), later AS (
  SELECT b.target, b.replica, b.model, b.metric, h.ts, h.increases
  FROM base b JOIN engine_histogram h
    ON h.target = b.target AND h.replica = b.replica AND h.model IS NOT DISTINCT FROM b.model
   AND h.metric = b.metric AND h.ts > b.ts
  WHERE h.increases IS NOT NULL
), by_bucket AS (
  SELECT target, replica, model, metric, generate_subscripts(increases, 1) AS i, unnest(increases) AS gained
  FROM later
), gained AS (
  SELECT target, replica, model, metric, i, sum(gained) AS gained FROM by_bucket GROUP BY ALL
), gained_list AS (
  SELECT target, replica, model, metric, list(gained ORDER BY i) AS gained FROM gained
  GROUP BY target, replica, model, metric
), newest AS (
  SELECT b.target, b.replica, b.model, b.metric, max(h.ts) AS ts, arg_max(h.sum_seconds, h.ts) AS sum_seconds
  FROM base b JOIN engine_histogram h
    ON h.target = b.target AND h.replica = b.replica AND h.model IS NOT DISTINCT FROM b.model
   AND h.metric = b.metric AND h.ts >= b.ts
  WHERE h.increases IS NOT NULL OR h.ts = b.ts  -- others were not counted
  GROUP BY b.target, b.replica, b.model, b.metric
)
SELECT b.target, b.replica, b.model, b.metric, e.edges_seconds, n.ts, b.ts AS base_ts,
  CASE WHEN g.gained IS NULL THEN b.buckets
       ELSE list_transform(list_zip(b.buckets, g.gained), lambda pair: pair[1] + pair[2]) END AS buckets,
  n.sum_seconds
FROM base b
JOIN edge_set e USING (edge_set_id)
JOIN newest n ON n.target = b.target AND n.replica = b.replica AND n.model IS NOT DISTINCT FROM b.model
  AND n.metric = b.metric
LEFT JOIN gained_list g ON g.target = b.target AND g.replica = b.replica
  AND g.model IS NOT DISTINCT FROM b.model AND g.metric = b.metric
