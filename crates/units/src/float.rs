//! Functions on floating-point numbers that `core` does not have.

/// The functions on `f64` that the standard library has and `core` lacks.
///
/// With the feature `std` each function is the standard library's. Without `std`, `libm` computes them: roots, roundings and
/// remainders have the same bits; powers and logarithms may differ in the last bits, as they may between processors. A crate
/// that is built with and without `std` imports the trait:
///
/// ```
/// #[cfg(not(feature = "std"))]
/// use freeblock_units::Float as _;
/// assert_eq!(2.25_f64.sqrt(), 1.5);
/// ```
pub trait Float: Sized {
    /// Returns the square root.
    fn sqrt(self) -> Self;
    /// Returns the largest whole number that is not above this one.
    fn floor(self) -> Self;
    /// Returns the smallest whole number that is not below this one.
    fn ceil(self) -> Self;
    /// Returns the nearest whole number; halves are rounded away from zero.
    fn round(self) -> Self;
    /// Returns the whole part.
    fn trunc(self) -> Self;
    /// Returns the part after the decimal point, with the sign of the number.
    fn fract(self) -> Self;
    /// Returns the remainder of a division by `divisor`, never negative.
    fn rem_euclid(self, divisor: Self) -> Self;
    /// Returns this number to the power of the integer `n`.
    fn powi(self, n: i32) -> Self;
    /// Returns this number to the power `exponent`.
    fn powf(self, exponent: Self) -> Self;
    /// Returns e to the power of this number.
    fn exp(self) -> Self;
    /// Returns the natural logarithm.
    fn ln(self) -> Self;
}

macro_rules! float {
    ($($name:ident($($argument:ident: $type:ty),*) = $portable:path;)*) => {
        impl Float for f64 {
            $(
                #[inline]
                fn $name(self, $($argument: $type),*) -> Self {
                    // No recursion: the name resolves to the inherent function of `f64`, not to the trait's.
                    #[cfg(feature = "std")]
                    return f64::$name(self, $($argument),*);
                    #[cfg(not(feature = "std"))]
                    return $portable(self, $($argument),*);
                }
            )*
        }
    };
}

float! {
    sqrt() = libm::sqrt;
    floor() = libm::floor;
    ceil() = libm::ceil;
    round() = libm::round;
    trunc() = libm::trunc;
    fract() = portable::fract;
    rem_euclid(divisor: f64) = portable::rem_euclid;
    powi(n: i32) = portable::powi;
    powf(exponent: f64) = libm::pow;
    exp() = libm::exp;
    ln() = libm::log;
}

/// The functions that `libm` lacks.
#[cfg(any(test, not(feature = "std")))]
mod portable {
    pub(super) fn fract(x: f64) -> f64 {
        x - libm::trunc(x)
    }

    pub(super) fn rem_euclid(x: f64, divisor: f64) -> f64 {
        let rest = x % divisor;
        if rest < 0.0 { rest + libm::fabs(divisor) } else { rest }
    }

    pub(super) fn powi(mut x: f64, n: i32) -> f64 {
        let (mut left, mut power) = (n.unsigned_abs(), 1.0);
        loop {
            if left & 1 == 1 {
                power *= x;
            }
            left >>= 1;
            if left == 0 {
                break;
            }
            x *= x;
        }
        if n < 0 { 1.0 / power } else { power }
    }
}

#[cfg(test)]
mod tests {
    use super::portable;

    /// Returns numbers of both signs and magnitudes up to 2^68, then special ones such as zeros, infinities and NaN.
    fn numbers() -> impl Iterator<Item = f64> {
        let mut bits = 1u64;
        let drawn = (0..20_000).map(move |_| {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mantissa = (bits >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
            mantissa * 2f64.powi((bits % 140) as i32 - 70)
        });
        let special = [
            0.0,
            -0.0,
            0.5,
            -0.5,
            1.5,
            2.5,
            -2.5,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            f64::MIN_POSITIVE,
        ];
        drawn.chain(special)
    }

    #[track_caller]
    fn same(x: f64, ours: f64, std: f64) {
        assert!(
            ours.to_bits() == std.to_bits() || (ours.is_nan() && std.is_nan()),
            "of {x:e}: {ours:e} and {std:e}"
        );
    }

    #[test]
    fn without_std_roots_roundings_and_remainders_are_the_same_bits() {
        for x in numbers() {
            same(x, libm::sqrt(x), x.sqrt());
            same(x, libm::floor(x), x.floor());
            same(x, libm::ceil(x), x.ceil());
            same(x, libm::round(x), x.round());
            same(x, libm::trunc(x), x.trunc());
            same(x, portable::fract(x), x.fract());
            for divisor in [1.0, 0.3, -7.25, 6e9] {
                same(x, portable::rem_euclid(x, divisor), x.rem_euclid(divisor));
            }
        }
    }

    #[test]
    fn without_std_powers_and_logarithms_differ_by_at_most_two_in_the_last_place() {
        let near = |x: f64, ours: f64, std: f64| {
            let apart = ours.to_bits().abs_diff(std.to_bits());
            assert!(apart <= 2 || (ours.is_nan() && std.is_nan()), "of {x:e}: {ours:e} and {std:e}");
        };
        for x in numbers() {
            near(x, libm::exp(x), x.exp());
            near(x, libm::log(x), x.ln());
            for n in [0, 1, 2, 3, -1, 7] {
                near(x, portable::powi(x, n), x.powi(n));
            }
            for exponent in [0.25, -0.7, 2.0] {
                near(x, libm::pow(x, exponent), x.powf(exponent));
            }
        }
    }
}
