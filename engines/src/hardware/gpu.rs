use crate::InputError;

/// What one GPU can do (engines-blis 12).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// The name users give.
    pub name: &'static str,
    /// Peak of dense BF16, in TFLOP/s.
    pub tflops: f64,
    /// Peak of dense FP8, in TFLOP/s; `None` where the GPU has no FP8 units.
    pub fp8_tflops: Option<f64>,
    /// Peak memory bandwidth, in TB/s.
    pub bandwidth_tbs: f64,
    /// The part of the peak that prefill reaches.
    pub prefill_mfu: f64,
    /// The part of the peak that decode reaches.
    pub decode_mfu: f64,
    /// Memory, in GiB.
    pub memory_gib: f64,
}

impl Gpu {
    /// Returns the peak in TFLOP/s for weights of `weight_bytes` bytes: FP8 weights run on FP8 units.
    pub fn peak_tflops(&self, weight_bytes: f64) -> f64 {
        self.fp8_tflops.filter(|_| weight_bytes == 1.0).unwrap_or(self.tflops)
    }
}

const fn a100(name: &'static str) -> Gpu {
    Gpu {
        name,
        tflops: 312.0,
        fp8_tflops: None,
        bandwidth_tbs: 2.039,
        prefill_mfu: 0.38,
        decode_mfu: 0.18,
        memory_gib: 80.0,
    }
}

/// The GPUs that are known, in the order of their names.
pub const GPUS: &[Gpu] = &[
    a100("A100-80"),
    a100("A100-SXM"),
    Gpu {
        name: "H100",
        tflops: 989.5,
        fp8_tflops: Some(1979.0),
        bandwidth_tbs: 3.35,
        prefill_mfu: 0.45,
        decode_mfu: 0.30,
        memory_gib: 80.0,
    },
    Gpu {
        name: "L40S",
        tflops: 362.05,
        fp8_tflops: Some(1466.0),
        bandwidth_tbs: 0.864,
        prefill_mfu: 0.32,
        decode_mfu: 0.08,
        memory_gib: 48.0,
    },
];

/// Returns the GPU called `name`, letters' case aside.
///
/// # Errors
/// When there is none: lists the known ones.
pub fn gpu(name: &str) -> Result<Gpu, InputError> {
    GPUS.iter()
        .find(|gpu| gpu.name.eq_ignore_ascii_case(name))
        .copied()
        .ok_or_else(|| InputError::unknown("GPU", name, GPUS.iter().map(|gpu| gpu.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_by_name_and_lists_the_known() {
        assert_eq!(gpu("h100").unwrap().name, "H100");
        assert_eq!(
            gpu("H200").unwrap_err().to_string(),
            r#"unknown GPU "H200"; accepted: A100-80, A100-SXM, H100, L40S; did you mean "H100"?"#
        );
    }

    #[test]
    fn only_one_byte_weights_use_fp8_units() {
        let h100 = gpu("H100").unwrap();
        assert_eq!(h100.peak_tflops(1.0), 1979.0);
        assert_eq!(h100.peak_tflops(2.0), 989.5);
        assert_eq!(gpu("A100-80").unwrap().peak_tflops(1.0), 312.0);
    }
}
