use super::*;

fn chain(
    hasher: &BlockHasher,
    parent: BlockKey,
    tokens: &[u32],
    extra: Option<&[ExtraKeys]>,
) -> Vec<BlockKey> {
    let mut keys = Vec::new();
    hasher.chain(parent, tokens, extra, &mut keys).unwrap();
    keys
}

fn extra(keys: &[&str]) -> ExtraKeys {
    Some(keys.iter().map(|key| (*key).to_owned()).collect())
}

#[test]
fn vectors_of_the_specification() {
    let sixteen: Vec<u32> = (1..=16).collect();
    let rows: [(&str, [u64; 7]); 3] = [
        (
            "",
            [
                0x9ddb_2db6_9f3f_452c,
                0xcbd1_586e_cc35_19c9,
                0x9c79_2373_cdfd_e1f8,
                0xb3c6_331c_fb06_fba6,
                0xe7e0_4b32_c20f_9858,
                0xf313_0963_5ef2_add0,
                0x8464_eee8_f2cf_3412,
            ],
        ),
        (
            "test",
            [
                0x2852_cf1a_737c_fba6,
                0xeb2a_8cb2_f940_2e64,
                0xadf3_d7ee_1a0c_795f,
                0x6d33_4093_ba3f_bc93,
                0xb983_d94c_39f7_408b,
                0x7efa_b4c3_5581_3c0a,
                0x768d_b86b_31d5_d0c0,
            ],
        ),
        (
            "42",
            [
                0xbdc1_bd2f_f312_d827,
                0x0763_a92a_b471_2ba3,
                0x4e9b_1837_befb_e81f,
                0xd9d1_c6cf_ed50_8864,
                0xa95b_2024_14f8_51c2,
                0x3888_e4ab_5b23_f4c9,
                0x2cf5_7333_b30e_2c21,
            ],
        ),
    ];
    for (seed, [root, block0, block1, with_image, with_salt, other_root, sixteen_key]) in rows {
        let hasher = BlockHasher::new(4, seed);
        assert_eq!(hasher.root("m"), root, "seed {seed}");
        assert_eq!(chain(&hasher, root, &[1, 2, 3, 4, 5, 6, 7, 300], None), [block0, block1]);
        assert_eq!(chain(&hasher, root, &[1, 2, 3, 4], Some(&[extra(&["abc"])])), [with_image]);
        assert_eq!(chain(&hasher, root, &[1, 2, 3, 4], Some(&[extra(&["abc", "s3cr3t"])])), [with_salt]);
        assert_eq!(hasher.root("test-model"), other_root);
        assert_eq!(chain(&BlockHasher::new(16, seed), other_root, &sixteen, None), [sixteen_key]);
    }
    let widths = [0, 23, 24, 255, 256, 65_535, 65_536, u32::MAX];
    assert_eq!(chain(&BlockHasher::new(8, ""), 1, &widths, None), [0x19d1_f6c7_b9a5_0ed1]);
    assert_eq!(BlockHasher::new(1, "").root(""), 0x0229_c977_e2f0_d696);
}

#[test]
fn the_tail_has_no_key() {
    let hasher = BlockHasher::new(4, "");
    assert!(chain(&hasher, 1, &[1, 2, 3], None).is_empty());
    assert_eq!(chain(&hasher, 1, &[1, 2, 3, 4, 5], None).len(), 1);
}

#[test]
fn extra_keys_stand_for_each_full_block_where_there_is_one() {
    let hasher = BlockHasher::new(4, "");
    let mut keys = Vec::new();
    let error = hasher.chain(1, &[1, 2, 3, 4, 5], Some(&[None, None]), &mut keys).unwrap_err();
    assert_eq!(
        error.to_string(),
        "extraFeatures length 2 does not match token chunk count 1 (blockSizeTokens=4, tokens=5)"
    );
    assert_eq!(hasher.chain(1, &[1], Some(&[None, None]), &mut keys), Ok(()));
    assert!(keys.is_empty());
    // No extra keys are not the same as an empty list of them.
    assert_ne!(
        chain(&hasher, 1, &[1, 2, 3, 4], Some(&[Some(Vec::new())])),
        chain(&hasher, 1, &[1, 2, 3, 4], Some(&[None]))
    );
}
