-- purpose: what the judge remembers of each check that is not plainly well
-- grain: finding + check + subject
SELECT name, check_name, subject, state, reason, incident_id, pending_since, fired_at, resolved_at, last_known_at,
       no_data_since, peak_value, reason_text, changed_at, labels
FROM judgement
