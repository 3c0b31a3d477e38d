//! What the fields of a parameter type are: a deserializer that asks instead of answering.
//!
//! Serde tells a deserializer what it expects at each place. This one notes that, answers with some value of the
//! kind, and goes on, into structs, options, and one element of each list and map.

use std::cell::RefCell;
use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::config::shape::{Field, Shape};

/// Returns the shape of `T`.
pub(super) fn shape<T: DeserializeOwned>() -> Shape {
    let found = RefCell::default();
    // A value of its own check may refuse what it is given here: what was noted by then stays.
    let _ = T::deserialize(Sketch(&found));
    found.into_inner()
}

/// Notes what is expected in the given place.
#[derive(Clone, Copy)]
struct Sketch<'a>(&'a RefCell<Shape>);

impl Sketch<'_> {
    fn note(self, shape: Shape) {
        *self.0.borrow_mut() = shape;
    }
}

/// A value refused what it was given.
#[derive(Debug)]
struct Refused;

impl de::Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Refused
    }
}

impl std::error::Error for Refused {}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("refused")
    }
}

/// Notes a shape and answers with a value of it.
macro_rules! answer {
    ($($method:ident: $shape:expr, $visit:ident($value:expr);)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            self.note($shape);
            visitor.$visit($value)
        }
    )*};
}

impl<'de> Deserializer<'de> for Sketch<'_> {
    type Error = Refused;

    answer! {
        deserialize_bool: Shape::Bool, visit_bool(false);
        deserialize_i8: Shape::Integer, visit_i8(0);
        deserialize_i16: Shape::Integer, visit_i16(0);
        deserialize_i32: Shape::Integer, visit_i32(0);
        deserialize_i64: Shape::Integer, visit_i64(0);
        deserialize_u8: Shape::Integer, visit_u8(0);
        deserialize_u16: Shape::Integer, visit_u16(0);
        deserialize_u32: Shape::Integer, visit_u32(0);
        deserialize_u64: Shape::Integer, visit_u64(0);
        deserialize_f32: Shape::Number, visit_f32(0.0);
        deserialize_f64: Shape::Number, visit_f64(0.0);
        deserialize_str: Shape::Text, visit_str("");
        deserialize_string: Shape::Text, visit_str("");
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.note(Shape::Any);
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let item = RefCell::default();
        let value = visitor.visit_seq(One { place: Sketch(&item), asked: false });
        self.note(Shape::List(Box::new(item.into_inner())));
        value
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        let item = RefCell::default();
        let value = visitor.visit_map(One { place: Sketch(&item), asked: false });
        self.note(Shape::Map(Box::new(item.into_inner())));
        value
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let places: Vec<_> = fields.iter().map(|key| (*key, RefCell::default())).collect();
        let value = visitor.visit_map(Members { places: &places, next: 0 });
        let fields = places.into_iter().map(|(key, place)| Field::new(key, place.into_inner()));
        self.note(Shape::Fields(fields.collect()));
        value
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.note(Shape::Choice(variants.to_vec()));
        let first: StrDeserializer<'_, Refused> = variants.first().ok_or(Refused)?.into_deserializer();
        visitor.visit_enum(first)
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier ignored_any
    }
}

/// One element of a list or map.
struct One<'a> {
    place: Sketch<'a>,
    asked: bool,
}

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        match std::mem::replace(&mut self.asked, true) {
            true => Ok(None),
            false => seed.deserialize(self.place).map(Some),
        }
    }
}

impl<'de> MapAccess<'de> for One<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        if std::mem::replace(&mut self.asked, true) {
            return Ok(None);
        }
        let key: StrDeserializer<'_, Refused> = "key".into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        seed.deserialize(self.place)
    }
}

/// The fields of a struct.
struct Members<'a> {
    places: &'a [(&'static str, RefCell<Shape>)],
    next: usize,
}

impl<'de> MapAccess<'de> for Members<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        let Some((key, _)) = self.places.get(self.next) else { return Ok(None) };
        let key: StrDeserializer<'_, Refused> = key.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let (_, place) = &self.places[self.next];
        self.next += 1;
        seed.deserialize(Sketch(place))
    }
}
