-- purpose: incidents that were open at some time of a window, or one by its id whatever its time.
-- parameters: from_ts, to_ts (UTC), incident (an incident_id to have in any case, or NULL).
-- grain: incident; the worst first: firing, pending, resolved; critical before warning; the oldest first.
SELECT
  incident_id, name, check_name, subject, severity, state, reason, reason_text, title, summary, value,
  peak_value, threshold, unit, started_at, fired_at, resolved_at, last_seen_at, no_data_since, labels, evidence
FROM incident
WHERE (started_at <= $to_ts AND coalesce(resolved_at, $to_ts::TIMESTAMP) >= $from_ts)
   OR incident_id = $incident
ORDER BY
  CASE state WHEN 'firing' THEN 0 WHEN 'pending' THEN 1 ELSE 2 END,
  CASE severity WHEN 'critical' THEN 0 ELSE 1 END,
  coalesce(fired_at, started_at)
