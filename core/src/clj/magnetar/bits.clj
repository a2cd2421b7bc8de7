(ns magnetar.bits
  "Parses, builds and matches binaries bit by bit: Erlang's bit syntax as data.

  compile            a layout made ready, once
  parse build        fields out of bytes, bytes out of fields
  bitstring          bits that are not whole bytes; build-bits makes them, parse takes them

  A layout is a vector of segments, and a segment a vector: a name or a constant, then in any order a size, a
  type and modifiers. `<<Len:16, Body:Len/binary, Rest/binary>>` is

    [[:len 16] [:body :binary :len] [:rest :binary]]
    '[[len 16] [body :binary len] [rest :binary]]    ; the same, with quoted symbols

    name      a keyword or symbol, which name the same field; twice in a layout it must be the same value; _
              is skipped, and built as zeros
    constant  a number, a character, a string, with :binary a byte array: it must be there, and is built; a
              string stands for its characters
    type      :integer (8 bits if there is no size), :float (16, 32, 64 bits; 64), :binary (bytes), :bits (any
              number of bits), :utf8 :utf16 :utf32 (one code point, as a number)
    size      a number, the name of an earlier field, or a function of the map of earlier fields. Or
              arithmetic such as (- len 4) or (if (= flag 1) 32 0), with the operators of clojure.core + - *
              quot rem mod min max inc dec bit-and bit-or bit-xor bit-shift-left bit-shift-right = < > <= >=.
              Without a size, :binary and :bits take all the rest, as the last segment.
    :unit n   what the size counts: n bits. Default 8 for :binary, else 1
    modifiers :unsigned :signed, :big :little :native; the first of each is the default

  A segment alone, outside a vector, is one with nothing behind the name or constant: [0x89 \"PNG\" [len 32]].

  Results are longs, where need be BigInts; doubles; byte arrays; bitstrings. They share nothing with the
  source.

  There are three differences from Erlang. A value that does not fit its field is refused, not cut. NaN and
  the infinities are floats like others. A length that is missing from the values is counted.

  In a clause of `receive` the pattern is the layout, not quoted:

    (bits [[len 16] [body :binary len] [rest :binary]])

  The names become locals. A symbol that is a local already is matched by value, and may be a size; a keyword
  always names a field. The message must be a byte array, a ByteBuffer (which is left as it is) or a
  bitstring. It is matched from its first bit to its last.

  Require it as `[magnetar.bits :as bits]`."
  (:refer-clojure :exclude [compile])
  (:require
   [magnetar.impl.bits.bitstring :as impl]
   [magnetar.impl.bits.engine :as engine]
   [magnetar.impl.bits.pattern :as pattern]
   [magnetar.impl.bits.refusals :as refusals]
   [magnetar.impl.errors :as errors])
  (:import
   (magnetar.impl.bits.bitstring Bitstring)
   (magnetar.impl.bits.engine Layout)))

(set! *warn-on-reflection* true)

;; ---- layouts

(defn compile
  "Returns a layout made ready to `parse` and `build`.

  These two take the vector as well, and compile it each time. Any number of threads may use the compiled
  layout. A layout that is already compiled is returned as it is.

  Throws an IllegalArgumentException with :magnetar/bad-layout, :segment and :index for a segment that cannot
  be compiled. It has an unknown word, a size that names no earlier field, a size that its type cannot have,
  or a constant that does not fit. Or it takes all the rest and is not the last.

  Example:

    (def frame (bits/compile '[[len 16] [body :binary len]]))

  Erlang: the text between << and >>."
  [layout]
  (engine/layout-of layout))

(defn parse
  "Parses a source by a layout; returns a map of the fields, or nil.

  It is nil where the layout does not match. The keys are keywords. A size that comes to less than 0, or to
  nothing, does not match.

  A byte array or bitstring is a value: the layout must match all of it. A ByteBuffer or InputStream is read:
  the layout takes its part off the front, which must end where a byte ends. The position of the ByteBuffer
  moves behind that part, and stays where it was when the result is nil; its byte order does not count. Of
  the InputStream nothing is read that the layout does not need (all of it for a last segment without a
  size). What was read from it when the result is nil, for a mismatch or the end of the stream, is gone.

  Blocks as the stream does.

  Throws an IllegalArgumentException with :magnetar/bad-layout or :magnetar/bad-source, and what the stream
  throws.

  Example:

    (bits/parse '[[len 16] [body :binary len] [rest :binary]] packet) ;=> {:len 3, :body bytes, :rest bytes}

  See also `build`.

  Erlang: <<Len:16, Body:Len/binary, Rest/binary>> = Bytes."
  [layout source]
  (engine/parse layout source))

(defn build-bits
  "Builds a bitstring from a layout and a map of values.

  Its length need not be whole bytes. All else is as in `build`.

  Example:

    (bits/build-bits [[:flag 1] [:level 4]] {:flag 1 :level 9})    ; #<5 bits 11001>

  Erlang: <<Flag:1, Level:4>>."
  [layout values]
  (engine/build layout values))

(defn- whole-bytes [^Bitstring bits layout]
  (when-not (zero? (rem (.-size bits) 8))
    (throw (errors/illegal-argument
             :magnetar/bad-value
             (str "The layout comes to " (.-size bits) " bits, which are no whole bytes. Fill it up with a segment such as [_ "
                  (- 8 (rem (.-size bits) 8)) "], or take a bitstring from `bits/build-bits`.")
             {:bits (.-size bits) :layout (.-source (engine/layout-of layout))})))
  (.-bytes bits))

(defn build
  "Builds a byte array from a layout and a map of values.

  The values are under the keywords of the layout's names; other keys are ignored. A field that is, as a
  plain name, the size of a :binary or :bits may be left out: it is counted. :binary and :bits take a byte
  array, what remains in a ByteBuffer, or a bitstring. Code points may be characters.

  Throws an IllegalArgumentException with :magnetar/bad-value, :segment and :index when a value is missing,
  is of another type, or does not fit. It throws one with :magnetar/bad-value too when the result is not
  whole bytes.

  Example:

    (vec (bits/build '[[len 16] [body :binary len]] {:body (.getBytes \"abc\")})) ;=> [0 3 97 98 99]

  See also `parse`, `build-bits`.

  Erlang: <<Len:16, Body:Len/binary>>."
  [layout values]
  (whole-bytes (engine/build layout values) layout))

;; ---- bitstrings

(defn bitstring
  "Returns the bits of a byte array, ByteBuffer or bitstring, or the first n.

  Two bitstrings with the same bits are equal. `count` is the number of bits, `nth` a bit, 0 or 1. A
  bitstring can be parsed, matched, and built into a :bits or :binary segment. `build` with [[:all :bits]]
  makes bytes of it.

  Throws an IllegalArgumentException with :magnetar/bad-source for anything else, and for more bits than
  there are.

  Example:

    (bits/bitstring (byte-array [0xab]) 4)    ; #<4 bits 1010>

  Erlang: a bitstring, <<16#A:4>>."
  ([bytes]
   (let [^Bitstring bits (impl/of bytes)]
     (bitstring bytes (if bits (.-size bits) 0))))
  ([bytes n]
   (let [^Bitstring bits (impl/of bytes)]
     (when-not (and bits (int? n) (<= 0 (long n) (.-size bits)))
       (throw (errors/illegal-argument
                :magnetar/bad-source
                (str "`bits/bitstring` takes a byte array, ByteBuffer or bitstring, and a number of bits that it has; these are "
                     (refusals/shown bytes) (when bits (str ", of " (.-size bits) " bits,")) " and " (refusals/shown n) ".")
                {:class (class bytes) :bits n})))
     (impl/first-bits (.-bytes bits) n))))

(defn bitstring?
  "Returns true if the value is a bitstring.

  `bitstring`, `build-bits` and :bits segments return bitstrings.

  Example:

    (bits/bitstring? (bits/build-bits [[:x 3]] {:x 1})) ;=> true

  Erlang: is_bitstring/1."
  [value]
  (instance? Bitstring value))

;; ---- patterns: hooks for the compiler of `receive` and `match`, no part of the API

(def ^{:no-doc true :deprecated "0.2" :arglists '([layout] [layout bound])} pattern-locals
  "Deprecated: write a clause (bits [..]) of `magnetar.match/match`, which binds the fields."
  pattern/locals)

(def ^{:no-doc true :deprecated "0.2" :arglists '([layout bound])} pattern-pins
  "Deprecated: write a clause (bits [..]) of `magnetar.match/match`, which reads locals that are bound."
  pattern/pins)

(def ^{:no-doc true :deprecated "0.2" :arglists '([layout] [layout bound])} matcher
  "Deprecated: use `parse`, or a clause (bits [..]) of `magnetar.match/match`."
  pattern/matcher)

(def ^{:no-doc true :deprecated "0.2" :arglists '([layout bound message])} match-form
  "Deprecated: expand to a clause (bits [..]) of `magnetar.match/match`."
  pattern/form)
