package spillgate.solr;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.solr.common.params.SolrParams;

/**
 * Tells which queries do the same work: by their handler, the names of their parameters, the fields that these name, and the
 * magnitude of the whole. Values are left out.
 *
 * <pre>/select  q=body:apple OR n:[1 TO 9]&amp;rows=10  ─▶  /select q(body n) rows</pre>
 */
final class Shape {
  /** How many parameters, and how many fields of one, are told apart. */
  private static final int MOST = 64;

  /** How many characters of a parameter's values are read for the names of fields. */
  private static final int LONGEST = 4096;

  final String text;

  /** The FNV-1a hash of the text, never 0. */
  final long kind;

  private Shape(String text) {
    this.text = text;
    long h = 0xcbf29ce484222325L;
    for (byte b : text.getBytes(StandardCharsets.UTF_8)) {
      h = (h ^ (b & 0xff)) * 0x100000001b3L;
    }
    this.kind = h == 0 ? 1 : h;
  }

  static Shape of(String path, SolrParams params) {
    TreeSet<String> parts = new TreeSet<>();
    long length = 0;
    for (Map.Entry<String, String[]> p : params) {
      TreeSet<String> fields = new TreeSet<>();
      int left = LONGEST;
      length += p.getKey().length();
      for (String value : p.getValue()) {
        if (value == null) {
          continue; // of a request that a program makes inside of Solr
        }
        length += value.length();
        fields(value.substring(0, Math.min(value.length(), left)), fields);
        left -= Math.min(value.length(), left);
      }
      if (parts.size() < MOST) {
        parts.add(fields.isEmpty() ? p.getKey() : p.getKey() + "(" + String.join(" ", fields) + ")");
      }
    }
    List<String> words = new ArrayList<>(parts);
    words.add(0, path);
    int digits = Long.toString(length).length();
    if (digits > 3) {
      words.add("x1" + "0".repeat(digits - 1)); // characters
    }
    return new Shape(String.join(" ", words));
  }

  /** Adds the different names in front of colons. */
  private static void fields(String query, TreeSet<String> out) {
    int start = -1;
    for (int i = 0; i < query.length(); i++) {
      char c = query.charAt(i);
      boolean word = c == '_' || c == '.' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9';
      if (!word) {
        if (c == ':' && start >= 0 && out.size() < MOST) {
          out.add(query.substring(start, i));
        }
        start = -1;
      } else if (start < 0) {
        start = i;
      }
    }
  }
}
