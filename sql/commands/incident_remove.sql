-- purpose: remove incidents: those that never fired, and those whose new row is appended in the same transaction
-- parameters: incident_ids (list)
DELETE FROM incident WHERE incident_id IN (SELECT unnest($incident_ids::VARCHAR[]))
