# The commands of the project; `just` lists them. What CI runs is `.ci/run`, nothing else.

vectors_source := "../shared/conformance"

_default:
    @just --list

# Everything that CI checks
check:
    .ci/run

# Formatting, clippy with the determinism bans, the seam, and the documentation's links
lint:
    .ci/run fmt clippy lint doc

# What hosted code takes from the machine and from the seam: `just seam --update`, `just seam --audit router/src/director.rs`
seam *arguments:
    cargo run -q -p executor --features hosting-lint --bin hosting-lint -- {{arguments}}

# Licences, sources and known vulnerabilities of the dependencies (needs cargo-deny)
deny:
    cargo deny check

# All tests
test:
    .ci/run test

# The golden vectors: `just conformance scheduling --id random`
conformance *arguments:
    cargo test -q -p tests --test conformance -- {{arguments}}

# Make the packed copy of the golden vectors equal to its source
vectors source=vectors_source:
    cargo run -q -p tests --bin pack-vectors -- {{source}} tests/vectors

# All benchmarks, or those of one: `just bench -p executor --bench peers -- --json peers.json`
bench *arguments="--workspace":
    cargo bench {{arguments}}

# Property tests with many more cases, then one digest a seed over repeated runs
soak cases="20000" seeds="20":
    PROPTEST_CASES={{cases}} cargo test --release --workspace
    cargo build --release -p engines
    for seed in $(seq {{seeds}}); do \
        one=$(target/release/lockstep run --seed $seed | grep -i digest); \
        other=$(target/release/lockstep run --seed $seed | grep -i digest); \
        echo "seed $seed: $one"; \
        [ -n "$one" ] && [ "$one" = "$other" ] || { echo "seed $seed: two runs, two digests: $other"; exit 1; }; \
    done

# Fuzz one parser with the seeds of the tree (needs cargo-fuzz and a nightly compiler)
fuzz target seconds="600":
    mkdir -p router/fuzz/corpus/{{target}}
    cargo +nightly fuzz run --fuzz-dir router/fuzz {{target}} router/fuzz/corpus/{{target}} router/fuzz/seeds/{{target}} \
        -- -max_total_time={{seconds}} -timeout=10 -rss_limit_mb=2048

# Run every example scenario and configuration once
examples:
    cargo build --release -p engines
    git ls-files '*examples/*.yaml' | while read -r file; do \
        echo "== $file"; \
        if grep -q '^kind: EndpointPickerConfig' "$file"; then \
            target/release/lockstep run --config "$file"; \
        else \
            target/release/lockstep run "$file"; \
        fi || exit 1; \
    done
