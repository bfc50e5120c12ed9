//! Logarithm and exponential from IEEE 754's exactly defined operations only.

const LN_2: f64 = std::f64::consts::LN_2;
/// ln 2 with the last 21 bits of the fraction clear, so that a whole number below 2^20 times it is exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
/// The rest of ln 2.
const LN_2_LOW: f64 = 1.9082149292705877e-10;

/// Returns the natural logarithm of a positive, normal, finite number, with a relative error of at most 5e-16: three
/// roundings, in m + 1, in s and in the last sum, each of at most 1.1e-16, and the truncated tail.
///
/// x = m * 2^e with m around 1, and ln m = 2 atanh s with s = (m - 1) / (m + 1), |s| < 0.172: eleven terms of the
/// series leave 1e-18.
#[inline]
pub(super) fn ln(x: f64) -> f64 {
    const FRACTION_MASK: u64 = (1 << 52) - 1;
    const ONE_EXPONENT_BITS: u64 = 1023 << 52;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & FRACTION_MASK | ONE_EXPONENT_BITS);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa *= 0.5;
        exponent += 1;
    }
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let e = f64::from(exponent);
    e * LN_2_HIGH + (2.0 * s + (atanh_tail(s) + e * LN_2_LOW))
}

/// Returns 2 atanh s - 2 s for |s| < 0.18.
#[inline]
fn atanh_tail(s: f64) -> f64 {
    let z = s * s;
    let w = z * z;
    // Two interleaved polynomials in w halve the chain of dependent operations.
    let odd = 1.0 / 3.0 + w * (1.0 / 7.0 + w * (1.0 / 11.0 + w * (1.0 / 15.0 + w * (1.0 / 19.0))));
    let even = 1.0 / 5.0 + w * (1.0 / 9.0 + w * (1.0 / 13.0 + w * (1.0 / 17.0 + w * (1.0 / 21.0))));
    2.0 * s * (z * odd + w * even)
}

/// Returns e^-x for x >= 0, with a relative error of some 1e-15; 0 if that is below 1e-300.
pub(crate) fn exp_neg(x: f64) -> f64 {
    const TERMS: u32 = 18;
    if x.is_nan() || x > 690.0 {
        return 0.0;
    }
    let halvings = (x / LN_2).round();
    let rest = -((x - halvings * LN_2_HIGH) - halvings * LN_2_LOW);
    let series = (1..=TERMS).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    series * f64::from_bits(((1023 - halvings as i64) as u64) << 52)
}

/// Returns ln(1 + x) / x for x > -1, with a relative error of some 1e-15; 1 for x = 0.
pub(super) fn ln_1p_over(x: f64) -> f64 {
    if x == 0.0 {
        return 1.0;
    }
    // Around 0 the sum 1 + x would lose the last digits of x; the series takes x itself.
    const SERIES_ARGUMENT_MAX: f64 = 0.3;
    if x.abs() < SERIES_ARGUMENT_MAX {
        let s = x / (2.0 + x);
        (2.0 * s + atanh_tail(s)) / x
    } else {
        ln(1.0 + x) / x
    }
}

/// Returns (e^x - 1) / x for x < 690, with a relative error of some 1e-15; 1 for x = 0.
pub(super) fn exp_m1_over(x: f64) -> f64 {
    const SERIES_ARGUMENT_MAX: f64 = 0.5;
    const TERMS: u32 = 16;
    if x.abs() < SERIES_ARGUMENT_MAX {
        // 1 + x/2 (1 + x/3 (1 + ...)): the term after the last is below 1e-20.
        return (2..=TERMS).rev().fold(1.0, |sum, n| 1.0 + sum * x / f64::from(n));
    }
    let power = if x < 0.0 { exp_neg(-x) } else { 1.0 / exp_neg(x) };
    (power - 1.0) / x
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn logarithm_of_one_is_exactly_zero() {
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(exp_neg(0.0), 1.0);
    }

    proptest! {
        // The platform's own logarithm may be off by 1.1e-16 too.
        #[test]
        fn logarithm_agrees_with_the_platform(x in 1e-17f64..4.0) {
            let exact = x.ln();
            prop_assert!((ln(x) - exact).abs() <= 6e-16 * exact.abs(), "{} {}", ln(x), exact);
        }

        #[test]
        fn logarithm_near_one_keeps_its_relative_precision(d in -1e-3f64..1e-3) {
            let exact = (1.0 + d).ln();
            prop_assert!((ln(1.0 + d) - exact).abs() <= 6e-16 * exact.abs());
        }

        #[test]
        fn exponential_agrees_with_the_platform(x in 0.0f64..600.0) {
            let exact = (-x).exp();
            prop_assert!((exp_neg(x) - exact).abs() <= 2e-15 * exact, "{} {}", exp_neg(x), exact);
        }

        #[test]
        fn quotients_with_the_logarithm_and_the_exponential_agree_with_the_platform(
            x in prop_oneof![-1e-6f64..1e-6, -0.999f64..0.999, -0.999f64..600.0],
        ) {
            let (log, power) = if x == 0.0 { (1.0, 1.0) } else { (x.ln_1p() / x, x.exp_m1() / x) };
            prop_assert!((ln_1p_over(x) - log).abs() <= 4e-15 * log.abs(), "{} {}", ln_1p_over(x), log);
            prop_assert!((exp_m1_over(x) - power).abs() <= 4e-15 * power, "{} {}", exp_m1_over(x), power);
        }
    }
}
