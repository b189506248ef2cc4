-- purpose: one GPU over time, reduced to steps; maxima and minima are kept so that peaks survive.
-- parameters: gpu, mig ('' for the whole GPU), from_ts, to_ts (UTC), step (seconds).
-- grain: step; a step without a sample has no row.
SELECT
  time_bucket(to_seconds($step), ts) AS ts,
  avg(memory_used_ratio)       AS memory_used_ratio,
  min(memory_used_ratio)       AS memory_used_ratio_min,
  max(memory_used_ratio)       AS memory_used_ratio_max,
  max(memory_used_bytes)       AS memory_used_bytes,
  min(memory_free_bytes)       AS memory_free_bytes,
  max(memory_reserved_bytes)   AS memory_reserved_bytes,
  max(memory_total_bytes)      AS memory_total_bytes,
  avg(utilization_ratio)       AS utilization_ratio,
  min(utilization_ratio)       AS utilization_ratio_min,
  max(utilization_ratio)       AS utilization_ratio_max,
  avg(graphics_active_ratio)   AS graphics_active_ratio,
  avg(sm_active_ratio)         AS sm_active_ratio,
  avg(tensor_active_ratio)     AS tensor_active_ratio,
  avg(dram_active_ratio)       AS dram_active_ratio,
  avg(power_watts)             AS power_watts,
  min(power_watts)             AS power_watts_min,
  max(power_watts)             AS power_watts_max,
  max(power_limit_watts)       AS power_limit_watts,
  avg(temperature_celsius)     AS temperature_celsius,
  max(temperature_celsius)     AS temperature_celsius_max,
  avg(memory_temperature_celsius) AS memory_temperature_celsius,
  avg(sm_clock_hertz)          AS sm_clock_hertz,
  min(sm_clock_hertz)          AS sm_clock_hertz_min,
  max(sm_clock_hertz)          AS sm_clock_hertz_max,
  avg(memory_clock_hertz)      AS memory_clock_hertz
FROM gpu_sample
WHERE gpu_uuid = $gpu AND mig_instance = $mig AND ts >= $from_ts AND ts <= $to_ts
GROUP BY ALL
ORDER BY ts
