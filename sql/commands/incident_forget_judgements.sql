-- purpose: remove remembered judgements; those still wanted are appended anew in the same transaction
-- parameters: judgement_keys (list)
DELETE FROM judgement WHERE judgement_key IN (SELECT unnest($judgement_keys::VARCHAR[]))
