(ns magnetar.bits-formats-test
  "Layouts of formats as they are: IPv4 and TCP headers, PNG, MP3, DNS."
  {:wakes false}
  (:refer-clojure :exclude [chunk])
  (:require
   [clojure.string :as str]
   [clojure.test :refer [deftest is testing]]
   [magnetar.bits :as bits]
   [magnetar.bits-support :refer [ascii hex parsed plain text]])
  (:import
   (java.awt.image BufferedImage)
   (java.io ByteArrayInputStream ByteArrayOutputStream)
   (java.nio ByteBuffer)
   (java.util.zip CRC32)
   (javax.imageio ImageIO)))

(set! *warn-on-reflection* true)

;; ---- IPv4

(def ^:private ipv4
  (bits/compile '[[4 4] [words 4] [service 8] [total 16]
                  [id 16] [_ 1] [keep-whole 1] [more 1] [offset 13]
                  [ttl 8] [protocol 8] [checksum 16]
                  [from :binary 4] [to :binary 4]
                  [options :binary (* 4 (- words 5))]
                  [payload :binary (- total (* 4 words))]]))

(def ^:private datagram (hex "4500 001c 0000 4000 4011 b8b8 c0a8 0001 c0a8 00c7 0102 0304 0506 0708"))

(defn- ones-sum [sum]
  (if (< 0xffff (long sum)) (recur (+ (bit-and (long sum) 0xffff) (bit-shift-right (long sum) 16))) sum))

(defn- checksum [^bytes header]
  (let [buffer (ByteBuffer/wrap header)]
    (ones-sum (reduce + (map :word (take-while some? (repeatedly #(bits/parse [[:word 16]] buffer))))))))

(deftest an-ipv4-datagram-is-taken-apart-and-put-together
  (let [{:keys [words] :as found} (bits/parse ipv4 datagram)]
    (is (= {:words 5 :service 0 :total 28 :id 0 :keep-whole 1 :more 0 :offset 0 :ttl 64 :protocol 17 :checksum 0xb8b8
            :from [-64 -88 0 1] :to [-64 -88 0 -57] :options [] :payload [1 2 3 4 5 6 7 8]}
           (plain found)))
    (is (= 0xffff (checksum (bits/build [[:header :binary]] {:header (byte-array (take (* 4 (long words)) datagram))}))))
    (is (= (text datagram) (text (bits/build ipv4 found))))))

(deftest what-is-no-ipv4-datagram-does-not-match
  (let [spoilt (fn [i value] (doto (aclone ^bytes datagram) (aset (int i) (unchecked-byte value))))]
    (testing "version" (is (nil? (bits/parse ipv4 (spoilt 0 0x65)))))
    (testing "a header shorter than it can be" (is (nil? (bits/parse ipv4 (spoilt 0 0x44)))))
    (testing "a total length that is not there" (is (nil? (bits/parse ipv4 (spoilt 3 0x1d)))))))

(deftest ipv4-options-have-the-length-that-the-header-says
  (is (= [7 4 5 0] (:options (parsed ipv4 (hex "4600 0018 0000 0000 4001 0000 7f000001 7f000001 07040500"))))))

;; ---- TCP

(def ^:private tcp
  (bits/compile '[[from 16] [to 16] [sequence 32] [ack 32]
                  [offset 4] [_ 4] [cwr 1] [ece 1] [urg 1] [ack? 1] [psh 1] [rst 1] [syn 1] [fin 1]
                  [window 16] [checksum 16] [urgent 16]
                  [options :binary (* 4 (- offset 5))]
                  [data :binary]]))

(def ^:private syn
  (hex "c3a5 0050 6e6bd37c 00000000 a0 02 faf0 1a2b 0000 020405b4 0402 080a 0011223344556677 01 030307"))

(def ^:private tcp-option
  {:end [0] :nop [1] :mss [2 4 [:mss 16]] :scale [3 3 :scale] :sack [4 2] :times [8 10 [:value 32] [:echo 32]]})

(defn- options
  "The options of a TCP header, in order."
  [^bytes bytes]
  (let [buffer (ByteBuffer/wrap bytes)]
    (->> (repeatedly #(some (fn [[kind layout]] (some->> (bits/parse layout buffer) (vector kind))) tcp-option))
         (take-while some?)
         vec)))

(deftest a-tcp-syn-has-its-flags-and-options
  (let [{found :options :as segment} (bits/parse tcp syn)]
    (is (= {:from 50085 :to 80 :sequence 0x6e6bd37c :ack 0 :offset 10 :window 64240 :checksum 0x1a2b :urgent 0 :data []
            :cwr 0 :ece 0 :urg 0 :ack? 0 :psh 0 :rst 0 :syn 1 :fin 0}
           (dissoc (plain segment) :options)))
    (is (= [[:mss {:mss 1460}] [:sack {}] [:times {:value 0x00112233 :echo 0x44556677}] [:nop {}] [:scale {:scale 7}]]
           (options found)))
    (is (= (text syn) (text (bits/build tcp segment))))))

;; ---- PNG

(def ^:private png-signature (bits/compile [0x89 "PNG\r\n" 0x1a "\n"]))

(def ^:private chunk (bits/compile '[[len 32] [kind :binary 4] [data :binary len] [crc 32]]))

(def ^:private image-header
  (bits/compile '[[width 32] [height 32] [depth 8] [colour 8] [0 8] [0 8] [interlace 8]]))

(defn- picture ^bytes []
  (let [out (ByteArrayOutputStream.)]
    (ImageIO/write (BufferedImage. 7 5 BufferedImage/TYPE_INT_RGB) "png" out)
    (.toByteArray out)))

(defn- crc [^bytes kind ^bytes data]
  (.getValue (doto (CRC32.) (.update kind) (.update data))))

(deftest a-png-file-is-a-signature-and-chunks
  (let [in (ByteArrayInputStream. (picture))
        signature (bits/parse png-signature in)
        chunks (into [] (take-while some?) (repeatedly #(bits/parse chunk in)))]
    (is (= {} signature))
    (is (= ["IHDR" "IDAT" "IEND"] (distinct (map (comp ascii :kind) chunks))))
    (is (= {:width 7 :height 5 :depth 8 :colour 2 :interlace 0} (bits/parse image-header (:data (first chunks)))))
    (is (= (map :crc chunks) (map #(crc (:kind %) (:data %)) chunks)))
    (is (= (text (picture))
           (str (text (bits/build png-signature {})) (str/join (map #(text (bits/build chunk (dissoc % :len))) chunks)))))))

;; ---- MP3

(def ^:private frame-header
  (bits/compile '[[0x7ff 11] [version 2] [layer 2] [unprotected 1]
                  [rate 4] [frequency 2] [padding 1] [_ 1]
                  [mode 2] [extension 2] [copyright 1] [original 1] [emphasis 2]]))

(def ^:private layer-3-rates [nil 32 40 48 56 64 80 96 112 128 160 192 224 256 320])

(deftest the-header-of-an-mp3-frame-says-what-is-in-it
  (let [{:keys [rate frequency padding] :as header} (bits/parse frame-header (hex "fffb9064"))]
    (is (= {:version 3 :layer 1 :unprotected 1 :rate 9 :frequency 0 :padding 0 :mode 1 :extension 2 :copyright 0 :original 1 :emphasis 0}
           header))
    (is (= 417 (+ (quot (* 144 1000 (long (layer-3-rates rate))) (long ([44100 48000 32000] frequency))) (long padding))))
    (is (= "fffb9064" (text (bits/build frame-header header))))
    (is (nil? (bits/parse frame-header (hex "ffdb9064"))))))

;; ---- DNS

(def ^:private dns-header
  (bits/compile '[[id 16] [response 1] [opcode 4] [authoritative 1] [truncated 1] [wanted 1] [available 1] [_ 3] [code 4]
                  [questions 16] [answers 16] [authorities 16] [additional 16]]))

(def ^:private label (bits/compile '[[0 2] [len 6] [text :binary len]]))
(def ^:private pointer (bits/compile '[[3 2] [offset 14]]))
(def ^:private question (bits/compile '[[type 16] [class 16]]))
(def ^:private record (bits/compile '[[type 16] [class 16] [ttl 32] [len 16] [data :binary len]]))

(defn- read-name
  "The labels that stand at the position of the buffer, which moves behind them; a pointer ends them and goes on elsewhere."
  [^ByteBuffer packet]
  (loop [labels []]
    (if-let [{:keys [offset]} (bits/parse pointer packet)]
      (into labels (read-name (.position (.duplicate packet) (int offset))))
      (let [{:keys [len text]} (bits/parse label packet)]
        (if (zero? (long len)) labels (recur (conj labels (ascii text))))))))

(defn- named [layout packet]
  (let [name (read-name packet)]
    (assoc (bits/parse layout packet) :name (str/join "." name))))

(defn- read-packet [bytes]
  (let [packet (ByteBuffer/wrap bytes)
        {:keys [questions answers] :as header} (bits/parse dns-header packet)]
    {:header header
     :questions (vec (repeatedly questions #(named question packet)))
     :answers (vec (repeatedly answers #(named record packet)))
     :left (.remaining packet)}))

(def ^:private answer
  (hex (str "db42 8180 0001 0002 0000 0000"
            " 03 777777 07 6578616d706c65 03 636f6d 00 0001 0001"
            " c00c 0005 0001 00000e10 0005 02 6d79 c010"
            " c02d 0001 0001 0000012c 0004 5db8d822")))

(deftest a-dns-answer-with-compressed-names-is-read
  (let [{:keys [header questions answers left]} (read-packet answer)]
    (is (= {:id 0xdb42 :response 1 :opcode 0 :authoritative 0 :truncated 0 :wanted 1 :available 1 :code 0
            :questions 1 :answers 2 :authorities 0 :additional 0}
           header))
    (is (= [{:type 1 :class 1 :name "www.example.com"}] questions))
    (is (= [{:type 5 :class 1 :ttl 3600 :len 5 :name "www.example.com" :data [2 0x6d 0x79 -64 0x10]}
            {:type 1 :class 1 :ttl 300 :len 4 :name "my.example.com" :data [93 -72 -40 34]}]
           (plain answers)))
    (is (zero? (long left)))))

(defn- name-bytes [domain]
  (bits/build (conj (into [] (mapcat (fn [label] [(count label) label])) (str/split domain #"\.")) 0) {}))

(deftest a-dns-question-is-built
  (is (= "db42010000010000000000000377777707 6578616d706c65 03636f6d00 00010001"
         (let [built (bits/build [[:header :binary 12] [:name :binary 17] [:question :binary 4]]
                                 {:header (bits/build dns-header {:id 0xdb42 :response 0 :opcode 0 :authoritative 0 :truncated 0 :wanted 1
                                                                  :available 0 :code 0 :questions 1 :answers 0 :authorities 0 :additional 0})
                                  :name (name-bytes "www.example.com")
                                  :question (bits/build question {:type 1 :class 1})})]
           (str/replace (text built) #"^(.{34})(.{14})(.{10})" "$1 $2 $3 ")))))

;; ---- UTF

(deftest a-text-is-read-code-point-by-code-point
  (doseq [[charset layout] {"UTF-8" [[:point :utf8]], "UTF-16BE" [[:point :utf16]], "UTF-16LE" [[:point :utf16 :little]]
                            "UTF-32BE" [[:point :utf32]], "UTF-32LE" [[:point :utf32 :little]]}
          :let [text "aé€\uD83D\uDE00ͅ\u0000"
                buffer (ByteBuffer/wrap (.getBytes text ^String charset))]]
    (is (= (vec (iterator-seq (.iterator (.codePoints text))))
           (into [] (comp (take-while some?) (map :point)) (repeatedly #(bits/parse layout buffer))))
        charset)))
