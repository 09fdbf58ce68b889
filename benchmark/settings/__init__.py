"""What a setting is: composed from YAMLs, declared by annotations, defaulted by classes, identified by digests."""
