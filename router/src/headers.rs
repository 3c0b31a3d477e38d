//! Request and response headers as plugins see them.

/// A list of headers: names unique, and lower-case but for [`insert_as_sent`](Headers::insert_as_sent), in order of
/// first insertion.
///
/// Pseudo headers (`:path`) are ordinary entries. Messages carry a dozen headers, so look-up is a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// Returns an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the value of the header `name`, which must be given in lower case.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Sets `name` (lower-cased here) to `value`; an earlier value is replaced in place.
    pub fn insert(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        match self.0.iter_mut().find(|(n, _)| n.eq_ignore_ascii_case(name)) {
            Some(entry) => entry.1 = value,
            None => self.0.push((name.to_ascii_lowercase(), value)),
        }
    }

    /// Sets `name` as it is written to `value`; only an entry of exactly this name is replaced.
    pub fn insert_as_sent(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        match self.0.iter_mut().find(|(n, _)| n == name) {
            Some(entry) => entry.1 = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    /// Removes the header `name` and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(at).1)
    }

    /// Returns the first of `names` that is present, even when its value is empty: a current header name
    /// before its deprecated alias (request-control spec 1.2).
    pub fn first_present(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|n| self.get(n))
    }

    /// Iterates over (name, value) in order of insertion.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }
}

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(entries: I) -> Self {
        let mut headers = Headers::new();
        for (name, value) in entries {
            headers.insert(name.as_ref(), value);
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_insensitive_and_the_last_value_wins() {
        let headers: Headers = [("X-A", "1"), ("b", "2"), ("x-a", "3")].into_iter().collect();
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("x-a", "3"), ("b", "2")]);
    }

    #[test]
    fn a_present_but_empty_current_name_hides_its_alias() {
        let headers: Headers = [("current", ""), ("alias", "x")].into_iter().collect();
        assert_eq!(headers.first_present(&["current", "alias"]), Some(""));
        assert_eq!(headers.first_present(&["other", "alias"]), Some("x"));
    }
}
