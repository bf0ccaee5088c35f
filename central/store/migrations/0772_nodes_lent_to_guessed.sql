UPDATE nodes SET revision = revision + 1, lent_to = lessee WHERE lessee <> '' AND instance_info LIKE '%"project_id":"' || lessee || '"%'
